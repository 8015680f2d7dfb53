"""A broker in a process of its own, or in the process of its caller."""
