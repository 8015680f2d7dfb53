"""`ottla group`: consumer groups of any Kafka cluster and groups of other kinds, their members, lag and committed offsets."""
