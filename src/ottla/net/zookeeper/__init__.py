"""A real ZooKeeper as the shared registry, through kazoo. No code outside this package uses ZooKeeper or kazoo directly."""
