"""The registry of one host's brokers: SQLite in a shared directory. A session ends when its process ends."""
