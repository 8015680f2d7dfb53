"""Replicated partitions: roles assigned by the controller, in-sync replicas, and fetches from leaders."""
