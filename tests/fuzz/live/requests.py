"""Requests of every API and version, made from their declarations: usual, with a few extremes, or extreme all over.

Values come from what was said before (`memory`), from what is usual under a name, or from the boundaries (`extremes`). A request
is bounded in bytes, or lists of lists would have no end.
"""

from __future__ import annotations

import random
import time
from collections import deque
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Final, cast

from ottla.broker.settings import BrokerSettings, TopicSettings
from ottla.broker.settings.group import GroupConfigs
from ottla.records.batches.builder import build
from ottla.records.compression import codecs
from ottla.wire.api.produce import ProduceRequest
from ottla.wire.apis import API
from ottla.wire.schema import Field, Message, Struct
from tests.fuzz.live import extremes
from tests.fuzz.live.memory import Memory, meaning

ROOM_BYTES: Final = (20_000, 20_000, 20_000, 300_000, 3_000_000)
"""Of a request, roughly."""
DISTINCT: Final = 6
"""Items of a long list that are made one by one; the others are like them under names of their own."""

GOOD: Final = 6
"""Requests of an API that are remembered because they met no error."""
CONFIGS: Final = [name for kind in (BrokerSettings, TopicSettings, GroupConfigs) for name in kind.DECLARED]
USUAL: Final[dict[str, tuple[Any, ...]]] = {
    "topic": ("t0", "t1", "t2", "t3", "t4", "new0"),
    "group_id": ("g0", "g1", "c0", "c1"),
    "transactional_id": ("x0", "x1", "x2", None),
    "group_instance_id": (None, None, "i0", "i1"),
    "member_id": ("", ""),
    "generation": (-1, 0, 1),
    "protocol_type": ("consumer",),
    "protocol_name": ("range", "roundrobin"),
    "server_assignor": (None, "uniform", "range"),
    "partition": (0, 1, 2),
    "user": ("alice", "bob", "ANONYMOUS"),
    "principal": ("User:alice", "User:bob", "User:*"),
    "host": ("*", "127.0.0.1"),
    "key": ("g0", "x0", "c0"),
    "quota": (
        "producer_byte_rate",
        "consumer_byte_rate",
        "request_percentage",
        "controller_mutation_rate",
        "connection_creation_rate",
    ),
    "entity_type": ("user", "client-id", "ip"),
    "entity_name": ("alice", "fuzz", None, "127.0.0.1"),
    "config": tuple(CONFIGS),
    "config_operation": (0, 0, 1, 2, 3),
    "resource_type": (2, 2, 4, 3, 5, 6, 32, 8, 16),
    "resource_name": ("t0", "t1", "g0", "0", "", "c0", "x0"),
    "resource_types": (2, 4, 8, 16, 32),
    "pattern_type": (3, 4),
    "resource_pattern_type": (3, 4),
    "permission_type": (2, 3),
    "operation": tuple(range(2, 16)),
    "key_type": (0, 1, 2),
    "match_type": (0, 1, 2),
    "acks": (-1, 1, 0),
    "isolation_level": (0, 1),
    "replica_id": (-1,),
    "mechanism": ("PLAIN", "SCRAM-SHA-256", 1, 2),
    "iterations": (4096, 8192),
    "timeout_ms": (100, 1000),
    "max_wait_ms": (0, 50),
    "min_bytes": (0, 1),
    "max_bytes": (1 << 20,),
    "partition_max_bytes": (1 << 20,),
    "session_timeout_ms": (6000, 30_000),
    "rebalance_timeout_ms": (1000, 30_000),
    "transaction_timeout_ms": (1000, 60_000),
    "max_lifetime_ms": (-1, 100_000),
    "renew_period_ms": (-1, 1000),
    "expiry_time_period_ms": (-1, 1000),
    "replication_factor": (1, -1),
    "num_partitions": (1, 3, -1),
    "count": (2, 4, 5),
    "offset": (-1, 0, 1, 5),
    "timestamp": (-1, -2, -3, 0),
    "producer_id": (-1, 0, 1),
    "producer_epoch": (-1, 0, 1),
    "leader_epoch": (-1, 0),
    "session_id": (0,),
    "session_epoch": (0, -1),
    "pattern": (None, "t.*", ".*"),
    "feature": ("metadata.version", "transaction.version", "group.version", "share.version", "streams.version"),
    "election_type": (0, 1),
    "broker_ids": (0, 1),
    "replicas": (0,),
    "rack_id": (None, "a"),
    "states_filter": ("Stable", "Empty"),
    "types_filter": ("classic", "consumer"),
    "state_filters": ("Ongoing", "Empty"),
    "retention_time_ms": (-1,),
    "commit_timestamp": (-1,),
    "validate_only": (False, False, True),
    "response_partition_limit": (100,),
    "max_num_offsets": (1, 100),
    "share_session_epoch": (0, 0, 1, -1),
    "share_acquire_mode": (0, 1),
    "acknowledge_types": (0, 1, 2, 3, 4),
    "max_records": (1, 100),
    "batch_size": (1, 100),
    "first_offset": (0, 1, 3),
    "last_offset": (0, 2, 5),
    "start_offset": (-1, 0, 1, 3),
    "state_epoch": (0, 1),
    "delivery_state": (0, 2, 4),
    "delivery_count": (0, 1, 2),
    "delivery_complete_count": (-1, 0, 2),
    "subtopology_id": ("0", "1"),
    "repartition_sink_topics": ("t3", "g0-r"),
    "process_id": ("p0", "p1"),
}
"""What is usual under a name, in whatever messages."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request of an API in a version."""

    key: int
    version: int
    body: Message

    @property
    def is_answered(self) -> bool:
        """Whether there will be a reply: a produce that wants no acknowledgement has none."""
        return not (isinstance(self.body, ProduceRequest) and self.body.acks == 0)


class Requests:
    """Makes requests, one after the other. The same seed and the same answers give the same ones."""

    def __init__(self, rng: random.Random, memory: Memory) -> None:
        self.rng = rng
        self._memory = memory
        self._api = ""
        self._version = 0
        self._extreme = 0.0
        self._room = 0
        self._known: dict[str, Any] = {}
        self._good: dict[int, deque[Asked]] = {}

    def succeeded(self, asked: Asked) -> None:
        """Remember a request that met no error: later ones are made from it."""
        if self._room > 0:
            self._good.setdefault(asked.key, deque(maxlen=GOOD)).append(asked)

    def make(self, key: int) -> Asked:
        """A request of an API, in any version there ever was."""
        rng, api = self.rng, API[key]
        self._api, self._version = api.name, rng.choice((*api.versions, api.versions[-1]))
        self._extreme = rng.choice((0.0, 0.0, 0.0, 0.0, 0.03, 0.05, 0.2, 0.6))
        self._room = rng.choice(ROOM_BYTES)
        self._known = self._memory.recall(rng)
        if key in self._good and rng.random() < 0.5:
            good = rng.choice(self._good[key])
            self._version, body = good.version, deepcopy(good.body)
            self._vary(body, rng.choice((0.0, 0.1, 0.3)))
            return Asked(key, good.version, body)
        return Asked(key, self._version, cast("Message", self._struct(api.request)))

    def _vary(self, made: Struct, share: float) -> None:
        """Replace what is known otherwise by now, and a share of all else."""
        rng = self.rng
        for field in made.WIRE.fields:
            value = getattr(made, field.name)
            if self._version not in field.present:
                continue
            if field.kind == "struct" and value is not None:
                for below in value[:5] if isinstance(value, list) else (value,):
                    self._vary(below, share)
            elif rng.random() < share or (meaning(self._api, field.name) in self._known and rng.random() < 0.5):
                setattr(made, field.name, self._value(field))

    def _struct(self, cls: type[Struct]) -> Struct:
        made = cls()
        for field in cls.WIRE.fields:
            if self._version in field.present and not (field.tag is not None and self.rng.random() < 0.5):
                setattr(made, field.name, self._value(field))
        return made

    def _value(self, field: Field) -> Any:
        rng = self.rng
        can_be_null = self._version in field.nullable
        if can_be_null and rng.random() < (self._extreme or 0.3 * (field.default is None)):
            return None
        if not field.array:
            return self._one(field, can_be_null)
        if rng.random() < self._extreme and self._room > 0:
            return self._many(field, rng.choice(extremes.COUNTS))
        return [self._one(field) for _ in range(rng.choice((1, 1, 1, 2, 3) if self._extreme else (0, 1, 1, 1, 1)))]

    def _many(self, field: Field, count: int) -> list[Any]:
        """A long list: a few of them are made, and the others are like these, half the time with names of their own."""
        before = self._room
        made = [self._one(field) for _ in range(min(count, DISTINCT))]
        each = max(8, (before - self._room) // max(len(made), 1))
        count = min(count, max(DISTINCT, self._room // each))
        self._room -= max(0, count - len(made)) * each
        differ = self.rng.random() < 0.5
        for number in range(len(made), count):
            one = made[number % DISTINCT]
            made.append(self._like(one, number) if differ else one)
        return made

    def _like(self, one: Any, number: int) -> Any:
        if isinstance(one, str):
            return f"{one[:100]}{number}"
        if isinstance(one, bool) or not isinstance(one, int | Struct):
            return one
        if isinstance(one, int):
            return one if one > 1000 or one < 0 else number % 128
        other = type(one)(**{field.name: getattr(one, field.name) for field in one.WIRE.fields})
        for field in one.WIRE.fields[:2]:
            value = getattr(one, field.name)
            if not isinstance(value, Struct | list | None) and self._version in field.present:
                setattr(other, field.name, self._like(value, number))
        return other

    def _one(self, field: Field, can_be_null: bool = False) -> Any:
        self._room -= 8
        if field.kind == "struct":
            return self._struct(field.struct)
        if self.rng.random() < self._extreme:
            return self._wild(field)
        if field.kind in ("bytes", "records"):
            return self._bytes(field)
        name = meaning(self._api, field.name)
        if field.default not in (None, 0, "") and self.rng.random() < 0.7:
            return field.default
        found = self._usual(name, field)
        return found if found is not None or can_be_null else self._plain(field)

    def _wild(self, field: Field) -> Any:
        rng = self.rng
        if field.kind in ("str", "plain"):
            found = extremes.text(rng, self._room)
            self._room -= len(found)
            return found
        if field.kind in ("bytes", "records"):
            wild = extremes.some_bytes(rng, self._room)
            self._room -= len(wild)
            return wild
        if field.kind == "16s":
            return rng.choice((bytes(16), b"\xff" * 16, rng.randbytes(16), bytes(15) + b"\1"))
        return extremes.number(rng, field.kind)

    def _usual(self, name: str, field: Field) -> Any:
        """Something usual of the field's type; None if nothing is known."""
        rng = self.rng
        fits: type | tuple[type, ...] = str if field.kind in ("str", "plain") else bytes if field.kind == "16s" else (int, float)
        choice = [self._known[name]] * 3 if name in self._known else []
        if name == "value" and field.kind == "str":
            return rng.choice(("1", "1000", "-1", "true", "delete", "compact", "604800000", "0.5", "a..b:5", "127.0.0.1:5", "0:0"))
        if name == "value":
            return rng.choice((1.0, 1000.0, 1e6, 1e9))
        if len(choice) < 3 or rng.random() < 0.4:
            choice += USUAL.get(name, ())
        choice = [each for each in choice if isinstance(each, fits)]
        found = rng.choice(choice) if choice else None
        if isinstance(found, int) and field.kind in extremes.RANGES:
            low, high = extremes.RANGES[field.kind]
            found = min(max(found, low), high)
        return found

    def _plain(self, field: Field) -> Any:
        if field.kind in ("str", "plain"):
            return self.rng.choice(("a", "t0", "g0", ""))
        if field.kind == "16s":
            return bytes(16)
        if field.kind == "?":
            return self.rng.random() < 0.3
        return float(self.rng.randrange(3)) if field.kind == "d" else self.rng.choice((field.default, field.default, 0, 1))

    def _bytes(self, field: Field) -> bytes:
        rng = self.rng
        if field.name == "hmac" and "hmac" in self._known:
            return cast("bytes", self._known["hmac"])
        if field.name == "metadata":
            return b"\0\0\0\0\0\1\0\2t0\xff\xff\xff\xff"
        if field.kind == "records":
            return self._records()
        return rng.choice((b"", b"\0\0\0\0\0\0\xff\xff\xff\xff", rng.randbytes(20)))

    def _records(self) -> bytes:
        """A batch, or several: mostly one that a partition takes."""
        rng = self.rng
        made = b""
        for _ in range(rng.choice((1, 1, 1, 2))):
            values = [rng.choice((None, b"", b"value", bytes(1000))) for _ in range(rng.choice((1, 1, 3, 100)))]
            keys = [rng.choice((b"k", b"", b"key")) for _ in values] if rng.random() < 0.7 else None
            has_producer = "producer_id" in self._known and rng.random() < 0.6
            known = self._known if has_producer else {}
            stamps = rng.choice((int(time.time() * 1000), 0, -1, rng.choice(extremes.BY_KIND["q"])))
            made += build(
                keys,
                values,
                timestamps=stamps,
                codec=rng.choice((0, 0, 0, codecs.GZIP, codecs.SNAPPY, codecs.LZ4, codecs.ZSTD)),
                transactional=has_producer and rng.random() < 0.6,
                control=rng.random() < 0.02,
                producer_id=known.get("producer_id", -1),
                producer_epoch=known.get("producer_epoch", -1),
                base_sequence=rng.choice((0, 0, 1, *extremes.BY_KIND["i"][-3:])) if has_producer else -1,
            )
        return made
