"""What a listener of Kafka 0.6 or 0.7 serves: five requests without versions, over offsets that are positions in bytes."""
