"""The mirror of topics of Kafka 0.7 into a cluster of today."""
