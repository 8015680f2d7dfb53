"""A real ZooKeeper as the registry that brokers share, by kazoo. Nothing outside this package knows of either."""
