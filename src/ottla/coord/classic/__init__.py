"""Classic groups: members join, the leader assigns, SyncGroup distributes. Other groups and offsets are unknown here."""
