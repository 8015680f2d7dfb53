"""The parts shared by all coordinators: the interface of a machine, and the shard that runs a machine for one partition.

The package depends on no coordinator, log or broker. A new coordinator adds a machine, its records and its settings.
"""
