"""Reading a stream, seen from Spark's driver: where it stands, when it goes on, how much a micro-batch takes, who is told.

`stored`, `admission`, `changes` and `progress` are pure. `watch` asks the brokers; `reader` is what Spark calls, and decides
nothing by itself.
"""
