"""Clients of brokers of Kafka 0.7: requests without versions, offsets that are bytes, and groups that live in ZooKeeper."""
