"""What was acknowledged, held against what is read: pure, so that a test can lose a record and see it missed."""

from __future__ import annotations

import threading
from array import array
from collections.abc import Mapping
from typing import NamedTuple

from tests.torture.soak.kinds import Goes, Kind

SIZE_SLACK = 0.9
"""A log holds a little more than the values that were sent: this share of retention.bytes in values is enough."""

MOST_FAULTS = 5
"""Of one partition: what is lost is lost by the hundred."""


class Told(NamedTuple):
    """A record that was acknowledged. Times in milliseconds since the epoch by the broker's clock."""

    number: int
    timestamp_ms: int


class Partition:
    """One partition's part of the ledger. May be used from any thread."""

    def __init__(self, kind: Kind, index: int) -> None:
        self.kind = kind
        self.index = index
        self.faults: list[str] = []
        self.count = 0
        self.position = 0
        self.cut_to = 0.0
        self._lock = threading.Lock()
        self._next = 0
        self._offsets, self._numbers, self._times = array("q"), array("q"), array("q")
        self._ahead: dict[int, Told] = {}
        self._unplaced: set[int] = set()
        self._early: dict[int, int] = {}
        self._highest = -1
        self._sent: dict[bytes, int] = {}
        self._latest: dict[bytes, tuple[int, Told]] = {}

    def __str__(self) -> str:
        return f"{self.kind.name}-{self.index}"

    @property
    def last_offset(self) -> int:
        """The highest that was acknowledged, or -1."""
        return max(self._offsets[-1000:], default=-1)

    def fault(self, sentence: str) -> None:
        if len(self.faults) < MOST_FAULTS:
            self.faults.append(f"{self}: {sentence}")

    def next_number(self) -> int:
        """The number of a record that is about to be sent."""
        with self._lock:
            number, self._next = self._next, self._next + 1
            key = self.kind.key(number)
            if key is not None:
                self._sent[key] = number
            return number

    def acknowledged(self, number: int, offset: int, timestamp_ms: int) -> None:
        """The broker said that it has the record; an offset below 0 if it did not say where (it was there already)."""
        with self._lock:
            self.count += 1
            if offset < 0:
                if number > self._highest:
                    self._unplaced.add(number)
                return
            told = Told(number, timestamp_ms)
            self._offsets.append(offset)
            self._numbers.append(number)
            self._times.append(timestamp_ms)
            self._note_latest(offset, told)
            if offset >= self.position:
                self._ahead[offset] = told
            elif self._early.pop(offset, number) != number:
                self.fault(f"offset {offset} was acknowledged for record {number}, but another one was read there")

    def _note_latest(self, offset: int, told: Told) -> None:
        key = self.kind.key(told.number)
        if key is not None and offset > self._latest.get(key, (-1, told))[0]:
            self._latest[key] = offset, told

    def read(self, offset: int, key: bytes | None, value: bytes | None, now_ms: int) -> None:
        """A reader that follows the end of the partition has this record next; `now_ms` by the broker's clock."""
        with self._lock:
            if offset < self.position:
                self.fault(f"offset {offset} was read after offset {self.position - 1}: the log's end went back")
                return
            self._passed(offset, now_ms)
            self.position = offset + 1
            number = self._check(offset, key, value)
            told = self._ahead.pop(offset, None)
            if told is not None and number is not None and told.number != number:
                self.fault(f"offset {offset} holds record {number}, but record {told.number} was acknowledged there")
            elif told is None and number is not None:
                self._early[offset] = number

    def _passed(self, offset: int, now_ms: int) -> None:
        """What was acknowledged between the reader's position and `offset` is not there any more."""
        if offset == self.position:
            return
        for missing in [at for at in self._ahead if at < offset]:
            self._miss(missing, self._ahead.pop(missing), now_ms)

    def _miss(self, offset: int, told: Told, now_ms: int) -> None:
        if not self._may_go(offset, told, now_ms):
            self.fault(f"record {told.number}, acknowledged at offset {offset}, is lost")

    def _may_go(self, offset: int, told: Told, now_ms: int) -> bool:
        kind = self.kind
        if Goes.BY_TIME in kind.goes and now_ms - told.timestamp_ms >= kind.retention_ms:
            return True
        if Goes.BY_SIZE in kind.goes and (self._offsets[-1] - offset) * kind.size >= SIZE_SLACK * kind.retention_bytes:
            return True
        if Goes.BY_REQUEST in kind.goes and offset < self.cut_to:
            return True
        key = kind.key(told.number)
        return Goes.BY_KEY in kind.goes and key is not None and (self._sent[key] > told.number or kind.value(told.number) is None)

    def _check(self, offset: int, key: bytes | None, value: bytes | None) -> int | None:
        """The number of a record that was read, if it says so; its bytes are those that were sent, and come in order."""
        kind = self.kind
        if value is None:
            if not kind.keys or key is None:
                self.fault(f"the record at offset {offset} has no value, and none was sent so")
            return None
        try:
            number = kind.number(value)
        except (ValueError, IndexError):
            self.fault(f"the record at offset {offset} is none that was sent: {value[:40]!r}")
            return None
        if value != kind.value(number) or key != kind.key(number):
            self.fault(f"record {number} at offset {offset} is not as it was sent: {key!r} {value[:40]!r}")
        if kind.is_exact and number <= self._highest:
            self.fault(f"record {number} came at offset {offset}, after record {self._highest}: it is out of order, or there twice")
        self._highest = max(self._highest, number)
        self._unplaced.discard(number)
        return number

    def latest(self) -> dict[bytes, tuple[int, Told]]:
        """For each key where its newest acknowledged record is."""
        with self._lock:
            return dict(self._latest)

    def check_keys(self, latest: Mapping[bytes, tuple[int, Told]], found: Mapping[bytes, int], now_ms: int) -> None:
        """`found`: the highest offset of each key in the whole log, which was read after `latest` was asked for."""
        with self._lock:
            for key, (offset, told) in latest.items():
                aged = Goes.BY_TIME in self.kind.goes and now_ms - told.timestamp_ms >= self.kind.retention_ms
                if found.get(key, -1) < offset and not aged and self.kind.value(told.number) is not None:
                    self.fault(f"the last value of {key!r}, record {told.number} at offset {offset}, is lost")

    def check_all(self, found: Mapping[int, bytes | None], now_ms: int) -> None:
        """`found`: every record's value by its offset, read when nothing was written any more."""
        with self._lock:
            order = sorted(range(len(self._offsets)), key=self._offsets.__getitem__)
            highest = -1
            for place in order:
                offset, told = self._offsets[place], Told(self._numbers[place], self._times[place])
                if offset not in found:
                    self._miss(offset, told, now_ms)
                elif found[offset] != self.kind.value(told.number):
                    self.fault(f"offset {offset} does not hold record {told.number} any more, which was acknowledged there")
                if told.number <= highest and (self.kind.is_exact or self.kind.writer != "java"):
                    self.fault(f"record {told.number} was acknowledged at offset {offset}, after record {highest}")
                highest = max(highest, told.number)
            if self._unplaced and not self.kind.goes:
                self.fault(f"record {min(self._unplaced)} was acknowledged, and is nowhere")


class Ledger:
    """All partitions."""

    def __init__(self, kinds: tuple[Kind, ...]) -> None:
        self.partitions = {(kind.name, index): Partition(kind, index) for kind in kinds for index in range(kind.partitions)}

    @property
    def count(self) -> int:
        """How many records were acknowledged."""
        return sum(part.count for part in self.partitions.values())

    @property
    def faults(self) -> list[str]:
        return [fault for part in self.partitions.values() for fault in part.faults]
