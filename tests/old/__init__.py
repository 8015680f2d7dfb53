"""What Apache Kafka of long ago answers, written down, and what Ottla answers in its place."""
