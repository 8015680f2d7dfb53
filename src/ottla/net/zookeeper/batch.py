"""Pipelined requests to ZooKeeper, as steps that the broker's scheduler runs.

One request can read many entries (multiRead, since 3.6), because most of a server's work is per request. These requests set no
watches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import Struct
from typing import Final

from kazoo.exceptions import EXCEPTIONS
from kazoo.protocol.serialization import GetChildren, GetData, stat_struct

from ottla.net.zookeeper.handler import ZooKeeperAnswer
from ottla.ports import Done, Entry, Steps

AT_ONCE = 64
"""The number of requests that are sent without a pause for other work."""

UNDER_WAY = 512
"""The limit on unanswered requests."""

Ask = Callable[[], ZooKeeperAnswer]

PATHS_AT_ONCE = 128
"""The most paths in one request. They take 40 KB of a server's limit of 1 MB (jute.maxbuffer).

The answer contains one value for each path.
"""

STEP = Struct("!i?i")
"""The header of each read and each result, also used as the end mark: type, end flag and error."""

END = STEP.pack(-1, True, -1)
FAILED = -1
"""The type of a result that is an error, whose code follows the header once more."""

INT = Struct("!i")
UNWATCHED = b"\0"

Read = Entry | list[str] | Exception
"""The result for one path: its entry, the names of its children, or kazoo's error."""


class ReadMany:
    """A request that reads many paths at once, in kazoo's interface. `kind` is `GetData.type` or `GetChildren.type`.

    Without paths, the request only tests whether the server supports requests of this type.
    """

    type: Final = 22

    def __init__(self, kind: int, paths: Sequence[str]) -> None:
        self.kind = kind
        self.paths = paths

    def serialize(self) -> bytes:
        head, frames = STEP.pack(self.kind, False, -1), bytearray()
        for path in self.paths:
            name = path.encode()
            frames += head + INT.pack(len(name)) + name + UNWATCHED
        return bytes(frames + END)

    @classmethod
    def deserialize(cls, frame: bytes, offset: int) -> list[Read]:
        """Return the results, in the order of the paths."""
        found: list[Read] = []
        while True:
            kind, is_over, _ = STEP.unpack_from(frame, offset)
            if is_over:
                return found
            one, offset = RESULTS[kind](frame, offset + STEP.size)
            found.append(one)


def _entry(frame: bytes, offset: int) -> tuple[Read, int]:
    (length,) = INT.unpack_from(frame, offset)
    begin = offset + INT.size
    end = begin + max(0, length)  # a length of -1 means no value
    created, _, _, _, version, *_ = stat_struct.unpack_from(frame, end)
    return Entry(frame[begin:end], version, created), end + stat_struct.size


def _children(frame: bytes, offset: int) -> tuple[Read, int]:
    (count,) = INT.unpack_from(frame, offset)
    offset += INT.size
    names: list[str] = []
    for _ in range(count):
        (length,) = INT.unpack_from(frame, offset)
        begin = offset + INT.size
        offset = begin + length
        names.append(frame[begin:offset].decode())
    return names, offset


def _error(frame: bytes, offset: int) -> tuple[Read, int]:
    (code,) = INT.unpack_from(frame, offset)
    return EXCEPTIONS[code](), offset + INT.size


RESULTS: dict[int, Callable[[bytes, int], tuple[Read, int]]] = {
    GetData.type: _entry,
    GetChildren.type: _children,
    FAILED: _error,
}


class RequestBatch:
    """A sequence of requests to ZooKeeper. Only a limited number of requests is in flight at a time."""

    def __init__(self, asks: Sequence[Ask]) -> None:
        self._asks = asks
        self._under_way = 0
        self._enough = 0
        self._done: Done | None = None

    def steps(self) -> Steps[list[ZooKeeperAnswer]]:
        """Send all requests. Return their answers, including errors, in the order of the requests."""
        answers: list[ZooKeeperAnswer] = []
        for start in range(0, len(self._asks), AT_ONCE):
            if start:
                yield None
            while self._under_way > UNDER_WAY - AT_ONCE:
                yield self._until(UNDER_WAY // 2)
            for ask in self._asks[start : start + AT_ONCE]:
                answer = ask()
                answer.told = self._on_answer
                self._under_way += 1
                answers.append(answer)
        while self._under_way:
            yield self._until(0)
        return answers

    def _until(self, under_way: int) -> Callable[[Done], None]:
        def start(done: Done) -> None:
            self._enough, self._done = under_way, done

        return start

    def _on_answer(self, answer: ZooKeeperAnswer) -> None:
        self._under_way -= 1
        if self._done is not None and self._under_way <= self._enough:
            done, self._done = self._done, None
            done(None)
