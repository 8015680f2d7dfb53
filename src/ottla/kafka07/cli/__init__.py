"""The requests of Kafka 0.7 for `ottla protocol` and `ottla decode`."""
