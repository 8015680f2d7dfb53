"""The broker's side of Kafka 0.6 and 0.7: five requests without versions, with positions in bytes as offsets."""
