from array import array

COMPILED: bool
BUCKETS: int
WIDTH: int
FIRST_NS: int
QUEUE: int
LOCAL: int
REMOTE: int
SYNC: int
SEND: int
TOTAL: int

class StageHistograms:
    cells: array[int]

    def __init__(self, stages: int) -> None: ...
    def add(self, stage: int, duration_ns: int) -> None: ...
    def add_served(self, queue_ns: int, local_ns: int) -> None: ...
    def add_begun(self, queue_ns: int, local_ns: int) -> None: ...
