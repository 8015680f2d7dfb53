"""Topics, leaders, replicas and settings, on which brokers agree. The package decides and applies changes by the registry port."""
