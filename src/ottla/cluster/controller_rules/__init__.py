"""The state and decisions of a cluster's controller: elections, deletions, and requests to brokers. No input or output."""
