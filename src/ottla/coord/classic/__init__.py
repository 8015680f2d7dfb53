"""Classic groups: members join, the leader assigns partitions, SyncGroup distributes the assignments."""
