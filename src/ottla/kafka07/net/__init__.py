"""The connection of brokers and clients of Kafka 0.7 to the real network and ZooKeeper."""
