"""What requests and answers have named so far, so that later requests are about things that exist: a stateful peer.

Names that belong together (a transactional id, its producer id and epoch) are kept as one *fact*, learned from a request and its
answer. Knows fields by their names; knows no API but where one name means several things.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator
from typing import Any, Final

from ottla.wire.schema import Message, Struct

KEPT: Final = 24
"""Facts of a kind that are remembered."""

MEANS: Final = {
    "topics": "topic", "topic_name": "topic", "topic_names": "topic", "sink_topic": "topic", "source_topics": "topic",
    "subscribed_topic_names": "topic", "groups": "group_id", "group_ids": "group_id", "groups_names": "group_id",
    "transactional_ids": "transactional_id", "v3_and_below_transactional_id": "transactional_id",
    "v3_and_below_producer_id": "producer_id", "v3_and_below_producer_epoch": "producer_epoch",
    "producer_id_filters": "producer_id",
    "partition_index": "partition", "partition_indexes": "partition", "index": "partition", "partitions": "partition",
    "instance_id": "group_instance_id", "generation_id_or_member_epoch": "generation", "generation_id": "generation",
    "member_epoch": "generation", "principal_name": "user", "principal": "principal", "current_leader_epoch": "leader_epoch",
    "last_fetched_epoch": "leader_epoch", "committed_leader_epoch": "leader_epoch", "base_offset": "offset",
    "fetch_offset": "offset",
    "committed_offset": "offset", "coordinator_keys": "key", "epoch": "session_epoch",
}  # fmt: skip
"""Other names of a thing."""

HERE: Final = {
    ("AlterUserScramCredentials", "name"): "user",
    ("DescribeUserScramCredentials", "name"): "user",
    ("JoinGroup", "name"): "protocol_name",
    ("AlterConfigs", "name"): "config",
    ("IncrementalAlterConfigs", "name"): "config",
    ("CreateTopics", "name"): "topic",
    ("OffsetFetch", "group_id"): "group_id",
    ("FindCoordinator", "key"): "key",
    ("AlterClientQuotas", "key"): "quota",
    ("ListTransactions", "transactional_id_pattern"): "pattern",
    ("ConsumerGroupHeartbeat", "subscribed_topic_regex"): "pattern",
}
"""What a name means in one API alone."""

KINDS: Final = {
    "group": ("group_id", "member_id", "generation", "group_instance_id", "protocol_name"),
    "share session": ("group_id", "member_id", "share_session_epoch", "topic_id"),
    "transaction": ("transactional_id", "producer_id", "producer_epoch"),
    "topic": ("topic", "topic_id"),
    "session": ("session_id", "session_epoch"),
    "token": ("hmac", "token_id"),
    "place": ("offset", "leader_epoch"),
    "member": ("node_id", "broker_epoch", "cluster_id"),
}
"""What belongs together."""
KIND_OF: Final = {name: kind for kind, names in KINDS.items() for name in names}


def meaning(api: str, name: str) -> str:
    """What a field of this name holds in an API's messages."""
    found = HERE.get((api, name)) or MEANS.get(name, name)
    return "topic" if found == "name" else found


class Memory:
    """Facts by kind, the newest last."""

    def __init__(self) -> None:
        self._facts: dict[str, deque[dict[str, Any]]] = {kind: deque(maxlen=KEPT) for kind in KINDS}

    def recall(self, rng: random.Random) -> dict[str, Any]:
        """One fact of each kind, as one."""
        found: dict[str, Any] = {}
        for facts in self._facts.values():
            if facts:
                newest = len(facts) - 1
                found |= facts[newest - min(newest, int(rng.expovariate(0.4)))]
        return found

    def learn(self, api: str, request: Message, answer: Message) -> None:
        """Keep what a request named and its answer gave; a session's epoch is the one that comes next."""
        said: dict[str, Any] = {}
        for message in (request, answer):
            for name, value in leaves(message):
                if value not in (None, "", b"") and not (isinstance(value, str | bytes) and len(value) > 1000):
                    said.setdefault(meaning(api, name), value) if message is request else said.update({meaning(api, name): value})
        if api == "Fetch" and said.get("session_id"):
            said["session_epoch"] = said.get("session_epoch", -1) + 1
        if api in ("ShareFetch", "ShareAcknowledge") and not said.get("error_code"):
            said["share_session_epoch"] = said.get("share_session_epoch", -1) + 1
        for kind, names in KINDS.items():
            fact = {name: said[name] for name in names if name in said}
            if fact and fact not in self._facts[kind]:
                self._facts[kind].append(fact)


MOST_LEAVES: Final = 40


def leaves(message: Struct) -> Iterator[tuple[str, Any]]:
    """The first values of a message, with their names."""
    seen = 0
    for field in message.WIRE.fields:
        value = getattr(message, field.name)
        items = value[:3] if field.array and value else [] if field.array else [value]
        for item in items:
            if isinstance(item, Struct):
                yield from leaves(item)
            elif field.kind != "records":
                yield field.name, item
            seen += 1
            if seen > MOST_LEAVES:
                return
