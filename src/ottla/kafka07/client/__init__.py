"""Clients of Kafka 0.7 brokers: requests without versions, offsets in bytes, and groups in ZooKeeper."""
