"""The drivers of the state machines of `ottla.client.kafka07` over sockets and ZooKeeper."""
