"""The parts shared by all coordinators: the contract of a machine, and the shard that runs one over a partition of its topic.

Coordinators, logs and brokers are unknown here. A new coordinator brings a machine, its records and its settings.
"""
