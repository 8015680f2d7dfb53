"""What brokers agree on: topics, leaders, replicas, settings. Decides and applies; knows the registry port, not what stores it."""
