"""A broker's membership in its cluster: its session with the shared registry, and its own entries in the registry."""
