"""Requests of administration, right and wrong, and what of the answers does not depend on the peer or the time.

`Administration` is one broker, real or simulated, with the same topics, groups and users; `administration_cases` are asked in their
order, since what one of them changes another may see. A value `Of(case, field)` is taken from the answer to an earlier case.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from ottla.records.batches.builder import build
from ottla.wire.errors import NONE, error_name
from ottla.wire.schema import Struct
from tests.support.acl_cases import ADMIN, CLOSED, WALL_MS, Ask
from tests.support.messages import request
from tests.support.waiting import eventually

NOBODY = "bob"
"""A user without any rights."""
TOPICS = ("plain", "grown", "records", "configured", "replaced", "committed")
BARRIER = "__barrier"
"""A topic of which no case asks."""
CHANGES = (33, 37, 38, 39, 40, 44, 57)
"""APIs with changes that a broker of KRaft applies after its answer."""
GROUPS = ("kept", "deleted", "deleted-too", "shortened")
LONG = "x" * 250
ANSWERS = Path(__file__).parents[1] / "interop" / "administration_answers.json"
SECRETS = {"delegation.token.secret.key": "the key of all brokers"}
"""Settings of a peer that these cases are asked of."""


class Of(NamedTuple):
    """A field of the answer to an earlier case, by its path ("results.0.log_dir")."""

    case: str
    field: str


class Case(NamedTuple):
    """One request: `name` is that of the case, without repetition."""

    name: str
    key: int
    version: int
    values: dict[str, Any]
    user: str = ADMIN

    def __str__(self) -> str:
        return f"{self.key} v{self.version}: {self.name}"


class Administration:
    """A broker with topics, groups and users, and its answers."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._answers: dict[str, Any] = {}
        self._barrier = 0
        stay = [{"name": "retention.ms", "value": "-1"}]
        topics = [
            {"name": name, "num_partitions": 2, "replication_factor": 1, "configs": stay if name == "records" else []}
            for name in (*TOPICS, BARRIER)
        ]
        self._admin(19, 5, topics=topics, timeout_ms=10_000)
        eventually(lambda: {topic.name for topic in self._admin(3, 12, topics=None).topics} >= set(TOPICS))
        eventually(self._produces)
        eventually(lambda: not self._admin(10, 3, key="kept", key_type=0).error_code)
        offsets = [{"partition_index": index, "committed_offset": 1, "committed_metadata": ""} for index in (0, 1)]
        committed = [{"name": name, "partitions": offsets} for name in ("plain", "committed")]
        for group in GROUPS:
            eventually(partial(self._commits, group, committed))

    def _produces(self) -> bool:
        """Write ten records to one partition, and return whether they were written: a real broker leads it a moment later."""
        records = bytes(build(None, [b"v"] * 10, WALL_MS))
        data = [{"name": "records", "partition_data": [{"index": 0, "records": records}]}]
        made = self._admin(0, 9, acks=-1, timeout_ms=10_000, topic_data=data)
        return not made.responses[0].partition_responses[0].error_code

    def _commits(self, group: str, topics: list[dict[str, Any]]) -> bool:
        return not self._admin(8, 7, group_id=group, topics=topics).topics[0].partitions[0].error_code

    def _admin(self, key: int, version: int, /, **values: Any) -> Any:
        return self._ask(ADMIN, key, version, request(key, version, **values))

    def answer(self, case: Case) -> Any:
        """Ask a case, and return its answer without the values that differ from peer to peer."""
        response = self._ask(case.user, case.key, case.version, request(case.key, case.version, **self._filled(case.values)))
        if response == CLOSED:
            return CLOSED
        self._answers[case.name] = response
        if case.key in CHANGES and not case.values.get("validate_only"):
            self._pass_barrier()
        return reduced(response, case.version)

    def _pass_barrier(self) -> None:
        """Change a setting and wait until it is described: a broker of KRaft applies changes later than it answers, in order."""
        self._barrier += 1
        setting = {"name": "retention.ms", "config_operation": 0, "value": str(self._barrier)}
        self._admin(44, 1, resources=[{"resource_type": 2, "resource_name": BARRIER, "configs": [setting]}])
        asked = {"resource_type": 2, "resource_name": BARRIER, "configuration_keys": ["retention.ms"]}
        eventually(lambda: self._admin(32, 4, resources=[asked]).results[0].configs[0].value == setting["value"])

    def _filled(self, value: Any) -> Any:
        if isinstance(value, Of):
            found = self._answers[value.case]
            for part in value.field.split("."):
                found = found[int(part)] if part.isdigit() else getattr(found, part)
            return found
        if isinstance(value, dict):
            return {name: self._filled(one) for name, one in value.items()}
        return [self._filled(one) for one in value] if isinstance(value, list) else value


SHOWN_AS: dict[str, Callable[[Any], Any]] = {
    "documentation": lambda value: None if value is None else bool(value),
    "error_code": error_name,
    "log_end_offset": lambda value: value > 0,
    "high_watermark": lambda value: value > 0,
    "partition_size": lambda value: value > 0,
    "controller_id": lambda value: value >= 0,
}
SOME = frozenset(
    {"hmac", "token_id", "topic_id", "cluster_id", "log_dir", "host", "client_instance_id", "requested_metrics", "listeners"}
)
"""Values of which it counts alone whether there are any."""
LEFT_OUT = frozenset(
    {"throttle_time_ms", "total_bytes", "usable_bytes", "port", "replica_directory_id", "subscription_id", "leader_epoch"}
)


def reduced(found: Any, version: int) -> Any:
    """Return an answer as JSON, without what differs from peer to peer."""
    if isinstance(found, list):
        parts = [reduced(one, version) for one in found if not getattr(one, "name", "").startswith(("ottla.", "__"))]
        return sorted(parts, key=repr)
    if not isinstance(found, Struct):
        return found
    told = {}
    for field in found.WIRE.fields:
        value = getattr(found, field.name)
        if version not in field.present or field.name in LEFT_OUT or "timestamp" in field.name:
            continue
        if field.name == "error_message":
            if not getattr(found, "error_code", NONE):
                told[field.name] = value
        elif field.name in SOME:
            told[field.name] = any(value)
        else:
            shown = SHOWN_AS.get(field.name)
            told[field.name] = reduced(value, version) if shown is None else shown(value)
    return told
