"""The registry of one host's brokers: SQLite in a shared directory, with sessions that end with their processes."""
