"""Share groups at the leaders of their partitions (KIP-932): records in flight and share sessions, as pure machines.

The package knows offsets, states and times; it knows no log, no group and no coordinator. `SharePartition` decides and applies
inputs; the broker reads records, persists states and sends replies.
"""
