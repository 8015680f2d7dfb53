"""The server of the schema registry: its topic, the election of a leader, and its HTTP API."""
