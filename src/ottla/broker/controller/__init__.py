"""The controller of a cluster at work: it is elected, reads and watches the registry, decides, writes, and tells brokers."""
