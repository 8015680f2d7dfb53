"""Topics, leaders, replicas and settings: the state on which all brokers agree. The registry port stores it and its changes."""
