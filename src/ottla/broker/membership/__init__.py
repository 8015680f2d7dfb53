"""How a broker belongs to a cluster: its session with the registry that brokers share, and what it writes there about itself."""
