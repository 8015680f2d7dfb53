"""The share coordinator (KIP-932): the delivery states of share partitions, stored in `__share_group_state`.

The package depends on the coordinator runtime and on wire formats. It uses no log, no broker, and no code of share groups.
"""
