"""What every coordinator shares: the contract of a machine, and the shard that runs one over a partition of its topic.

Knows no coordinator, no log and no broker. A new coordinator brings a machine, its records and its settings.
"""
