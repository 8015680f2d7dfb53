"""The positions in bytes of messages for clients of Kafka 0.7, kept in sidecars beside a log's segments."""
