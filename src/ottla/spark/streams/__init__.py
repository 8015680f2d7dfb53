"""The stream reader on Spark's driver: the position of a stream, the size and start of micro-batches, and committed offsets.

`stream_position`, `admission` and `progress` are pure, and decide. `watch` queries the brokers. Spark calls `reader`.
"""
