from array import array
from collections.abc import Callable

from ottla.broker.serving.purgatory import DelayedReply
from ottla.broker.serving.request import Answer, Peer
from ottla.net.server.request_meters import RequestMeter, RequestMeters
from ottla.ports import Now

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

def clock_ns() -> int: ...

class StageHistograms:
    cells: array[int]

    def __init__(self, stages: int) -> None: ...
    def add(self, stage: int, duration_ns: int) -> None: ...
    def add_served(self, queue_ns: int, local_ns: int) -> None: ...
    def add_begun(self, queue_ns: int, local_ns: int) -> None: ...

class RequestWatch:
    begun: dict[DelayedReply, tuple[RequestMeter, int, int, int, bytes]]
    last: RequestMeter | None

    def __init__(
        self, receive: Callable[..., Answer | DelayedReply], delayed: type[DelayedReply], meters: RequestMeters, head_bytes: int
    ) -> None: ...
    def arrive(self) -> None: ...
    def resume(self) -> None: ...
    def receive(self, frame: memoryview, peer: Peer, now: Now, owned: bool) -> Answer | DelayedReply: ...
