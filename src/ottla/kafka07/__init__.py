"""Kafka 0.6 and 0.7, an optional part: frames without versions, and positions in bytes in place of offsets."""
