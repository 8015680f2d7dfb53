"""Reading a stream on Spark's driver: its position, the start and size of micro-batches, and committed offsets.

`stored`, `admission`, `changes` and `progress` are pure, and decide. `watch` queries the brokers; Spark calls `reader`.
"""
