"""What brokers agree on: topics, leaders, replicas and settings. It decides and applies changes through the registry port."""
