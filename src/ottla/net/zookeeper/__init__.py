"""A real ZooKeeper as the shared registry, by kazoo. No code outside this package uses either directly."""
