"""The cluster's controller: its election, its watches on the registry, its decisions, and its requests to brokers."""
