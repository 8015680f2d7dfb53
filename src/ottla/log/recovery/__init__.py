"""The opening and truncation of a log: which files it has, and how far they are valid."""
