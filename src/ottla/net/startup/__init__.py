"""The start and stop of one broker: its data directory, registry, plugins and threads."""
