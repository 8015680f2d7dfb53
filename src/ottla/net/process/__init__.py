"""A broker in a process of its own, or in the caller's."""
