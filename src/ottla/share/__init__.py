"""Share groups at the leaders of their partitions (KIP-932): records in flight and share sessions, as pure machines.

The package has offsets, states and times, but no log, group or coordinator. `SharePartition` decides and applies
inputs; the broker reads records, persists states and sends replies.
"""
