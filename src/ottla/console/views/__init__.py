"""The views of the console: each returns a dataclass of plain values. They know neither HTML nor HTTP."""
