"""Completion of the `ottla` command by shells."""
