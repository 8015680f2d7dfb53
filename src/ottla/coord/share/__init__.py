"""Share groups (KIP-932): members, epochs and assignments, and the share partitions whose state they have initialized."""
