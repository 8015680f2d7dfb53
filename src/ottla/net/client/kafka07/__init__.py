"""Drives the machines of `ottla.client.kafka07` over sockets and ZooKeeper."""
