"""Decisions of a partition's replicas: the leader's about in-sync replicas and high watermark, the follower's about readers."""
