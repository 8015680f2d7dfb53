"""The reassembly of TCP connections: the bytes of each direction in order, although segments can be out of order or repeated.

If the capture lacks segments, a direction has several runs of bytes. The module does not interpret the bytes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field

from ottla.cli.decode.capture import ACK, SYN, TcpSegment

_HALF = 1 << 31
_WHOLE = 1 << 32


@dataclass(slots=True)
class ByteRun:
    """Consecutive bytes of one direction of a TCP connection, without a gap.

    `marks` are the positions at which segments begin, `times_ns` their capture times.
    """

    data: bytearray = field(default_factory=bytearray)
    marks: list[int] = field(default_factory=list)
    times_ns: list[int] = field(default_factory=list)

    def time_ns(self, position: int) -> int:
        """Return the capture time of the byte at `position`."""
        return self.times_ns[bisect_right(self.marks, position) - 1]

    def next_mark(self, position: int) -> int:
        """Return the start of the first segment after `position`, or the end of the run if there is none."""
        at = bisect_right(self.marks, position)
        return self.marks[at] if at < len(self.marks) else len(self.data)


class Direction:
    """All TCP segments that one end of a connection sent."""

    def __init__(self) -> None:
        self._pieces: list[tuple[int, int, memoryview]] = []
        self._last = 0
        self._begun = False

    def start(self, sequence: int) -> None:
        self._last, self._begun = sequence, True

    def add(self, segment: TcpSegment) -> None:
        if not self._begun:
            self.start(segment.sequence)
        # Sequence numbers wrap around. Each is assumed to be as near as possible to the one before.
        self._last += (segment.sequence - self._last + _HALF) % _WHOLE - _HALF
        if len(segment.payload):
            self._pieces.append((self._last, segment.time_ns, segment.payload))

    def runs(self) -> list[ByteRun]:
        found: list[ByteRun] = []
        end = 0
        for sequence, time_ns, payload in sorted(self._pieces, key=lambda piece: (piece[0], piece[1])):
            if not found or sequence > end:
                found.append(ByteRun())
                end = sequence
            new = payload[end - sequence :]
            if len(new):
                run = found[-1]
                run.marks.append(len(run.data))
                run.times_ns.append(time_ns)
                run.data += new
                end += len(new)
        return found


@dataclass(slots=True)
class CapturedConnection:
    """One captured TCP connection with its two directions. `opener` is the end that opened it; empty if the capture began later."""

    ends: tuple[str, str]
    opener: str = ""
    first_sequence: int = -1
    directions: dict[str, Direction] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.directions = {end: Direction() for end in self.ends}


def connections(segments: Iterable[TcpSegment]) -> list[CapturedConnection]:
    """Return all connections, in the order in which they begin. A port that is used again begins another connection."""
    current: dict[frozenset[str], CapturedConnection] = {}
    found: list[CapturedConnection] = []
    for segment in segments:
        ends = frozenset((segment.source, segment.target))
        connection = current.get(ends)
        opens = segment.flags & (SYN | ACK) == SYN
        if connection is None or (opens and connection.first_sequence != segment.sequence):
            connection = current[ends] = CapturedConnection((segment.source, segment.target))
            found.append(connection)
        if opens:
            connection.opener, connection.first_sequence = segment.source, segment.sequence
        direction = connection.directions[segment.source]
        if segment.flags & SYN:
            direction.start((segment.sequence + 1) % _WHOLE)
        else:
            direction.add(segment)
    return found
