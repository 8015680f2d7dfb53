"""The positions of messages in a log, kept in sidecars beside its segments."""
