"""The journal of a log directory: unsynced batches of many partitions, made durable by one write into preallocated files."""
