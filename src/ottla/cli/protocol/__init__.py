"""`ottla protocol`: every API, version and field of Kafka's protocol."""
