"""The consumer as state machines: fetches, positions, group membership and committed offsets."""
