"""The drivers of the state machines of `ottla.kafka07.client` over sockets and ZooKeeper."""
