"""Classic groups: members join, a leader assigns, SyncGroup hands out. Knows no other kind of group and no offsets."""
