"""The check, the repair and the dump of a log's files, for people and programs."""
