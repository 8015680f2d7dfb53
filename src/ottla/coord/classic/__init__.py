"""Classic consumer groups: members join, a leader assigns, everybody syncs; knows no other kind of group and no offsets."""
