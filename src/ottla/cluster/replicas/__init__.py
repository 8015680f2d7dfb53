"""Decisions of a partition's replicas: the leader's in-sync set and high watermark, the follower's reads and truncation."""
