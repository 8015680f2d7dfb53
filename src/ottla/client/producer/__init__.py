"""The producer as state machines: batches, partitions, sequence numbers, requests and transactions."""
