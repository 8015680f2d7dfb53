"""Partitions of which other brokers have replicas: roles as the controller gives them, in-sync sets, copies."""
