"""`ottla topic`: topics of any Kafka cluster, their settings, offsets and records."""
