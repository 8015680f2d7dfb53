"""Messages of Kafka 0.7, and their conversion from and to batches."""
