"""Streams groups (KIP-1071): the group coordinator assigns the tasks of a Kafka Streams application to its members."""
