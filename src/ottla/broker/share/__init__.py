"""Share partitions that this broker leads: loaded from the share coordinator, fed with the log's batches, and persisted."""
