"""The registry of the brokers of one host: SQLite in a directory that they share, with sessions that end with their processes."""
