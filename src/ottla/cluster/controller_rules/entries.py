"""Parsers and encoders of the registry's entries of brokers, topics, partition states and notifications, in Kafka's JSON versions.

They follow the layout and decide nothing. All parsers raise `ValueError` for a value that cannot be parsed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import NamedTuple, ParamSpec, TypeVar

from ottla.cluster import layout
from ottla.cluster.controller_rules.context import (
    RECOVERED,
    RECOVERING,
    Endpoint,
    LeaderAndIsr,
    LiveBroker,
    ReplicaAssignment,
    TopicPartition,
)
from ottla.ports import Entry

P = ParamSpec("P")
T = TypeVar("T")

SECURITY_PROTOCOLS = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}

ISR_CHANGES = "/isr_change_notification"
LOG_DIR_EVENTS = "/log_dir_event_notification"
DELETIONS = "/admin/delete_topics"

HIGHEST_LEVEL = 2**15 - 1
LEADER_DURING_DELETE = -2
"""Kafka's leader id for a partition that is being deleted. A partition without a leader has -1 instead."""
LAST_EPOCH = layout.LARGEST - 1
"""The largest leader epoch of a stored state: one more is still within 32 bits."""
NO_PORT = -1


class TopicEntry(NamedTuple):
    """The parsed entry of a topic. `version` is the entry's version in the registry. Topics from before 2.8 have no id."""

    topic_id: bytes | None
    assignments: dict[int, ReplicaAssignment]
    version: int = 0


def _understood(parse: Callable[P, T]) -> Callable[P, T]:
    """Return a parser that raises `ValueError` for every value that `parse` cannot parse."""

    @wraps(parse)
    def understood(*args: P.args, **more: P.kwargs) -> T:
        try:
            return parse(*args, **more)
        except layout.NOT_UNDERSTOOD as error:
            raise ValueError(layout.why(error)) from error

    return understood


@_understood
def broker(node_id: int, entry: Entry) -> LiveBroker:
    """Parse a broker's registration in JSON version 0 to 5."""
    stored = layout.read(entry.value)
    protocols = stored.get("listener_security_protocol_map", {})
    texts = stored.get("endpoints") or [f"PLAINTEXT://{stored['host']}:{stored['port']}"]
    features = stored.get("features") or {}
    return LiveBroker(
        layout.whole(node_id),
        entry.created,
        tuple(_endpoint(text, protocols) for text in texts),
        None if stored.get("rack") is None else layout.text(stored["rack"]),
        tuple(
            (layout.text(name), _level(levels["min_version"]), _level(levels["max_version"])) for name, levels in features.items()
        ),
    )


def _level(value: object) -> int:
    return layout.whole(value, highest=HIGHEST_LEVEL)


def _endpoint(text: str, protocols: Mapping[str, str]) -> Endpoint:
    listener, _, address = layout.text(text).partition("://")
    host, _, port = address.rpartition(":")
    protocol = SECURITY_PROTOCOLS[protocols.get(listener, listener)]
    return Endpoint(listener, host.removeprefix("[").removesuffix("]"), layout.whole(int(port), lowest=NO_PORT), protocol)


@_understood
def topic(entry: Entry, known: dict[tuple[int, ...], ReplicaAssignment] | None = None) -> TopicEntry:
    """Parse a topic's entry in JSON version 1 to 3. Equal assignments are one object for all topics with one `known`."""
    known = {} if known is None else known
    stored = layout.read(entry.value)
    adding, removing = stored.get("adding_replicas") or {}, stored.get("removing_replicas") or {}
    assignments, read = {}, dict[tuple[int, ...], ReplicaAssignment]()
    for text, nodes in stored["partitions"].items():
        index = layout.whole(int(text))
        if text in adding or text in removing:
            added, removed = layout.nodes(adding.get(text, [])), layout.nodes(removing.get(text, []))
            assignments[index] = ReplicaAssignment(layout.nodes(nodes), added, removed)
        else:
            key = tuple(nodes)
            if key not in read:
                checked = layout.nodes(nodes)
                read[key] = known.setdefault(checked, ReplicaAssignment(checked))
            assignments[index] = read[key]
    topic_id = stored.get("topic_id")
    return TopicEntry(None if topic_id is None else layout.uuid_bytes(topic_id), assignments, entry.version)


def topic_value(topic_id: bytes | None, assignments: Mapping[int, ReplicaAssignment]) -> bytes:
    """Encode a topic's entry in JSON version 3; `topic` parses it."""
    replicas = {index: one.replicas for index, one in assignments.items()}
    adding = {index: one.adding for index, one in assignments.items() if one.adding}
    removing = {index: one.removing for index, one in assignments.items() if one.removing}
    return layout.topic_json(topic_id or b"", replicas, adding, removing)


@_understood
def state(entry: Entry) -> LeaderAndIsr:
    """Parse the state entry of a partition."""
    stored = layout.read(entry.value)
    return LeaderAndIsr(
        layout.whole(stored["leader"], lowest=LEADER_DURING_DELETE),
        layout.whole(stored["leader_epoch"], highest=LAST_EPOCH),
        layout.nodes(stored["isr"]),
        layout.whole(stored.get("leader_recovery_state", RECOVERED), highest=RECOVERING),
        layout.whole(stored["controller_epoch"]),
        entry.version,
    )


def state_value(written: LeaderAndIsr) -> bytes:
    """Encode the state entry of a partition; `state` parses it."""
    return layout.state_json(
        written.controller_epoch, written.leader, written.leader_epoch, written.isr, written.leader_recovery_state
    )


@_understood
def changed_isrs(value: bytes) -> list[TopicPartition]:
    """Parse the partitions in a notification of a leader that changed their in-sync replicas itself, as before 2.7."""
    return [(layout.text(one["topic"]), layout.whole(one["partition"])) for one in layout.read(value)["partitions"]]


def changed_isrs_value(partitions: Iterable[TopicPartition]) -> bytes:
    """Encode the notification that `changed_isrs` parses."""
    value = {"version": 1, "partitions": [{"topic": name, "partition": index} for name, index in partitions]}
    return layout.json_bytes(value)


@_understood
def broker_epochs(value: bytes) -> dict[int, int]:
    """Parse the broker epochs, by broker id, of the registrations that a controller has processed."""
    return {int(node_id): int(epoch) for node_id, epoch in layout.read(value)["brokers"].items()}


def broker_epochs_value(brokers: Iterable[LiveBroker]) -> bytes:
    """Encode the epochs of these brokers; `broker_epochs` parses them."""
    epochs = {str(one.node_id): one.epoch for one in sorted(brokers)}
    return layout.json_bytes({"version": 1, "brokers": epochs})


@_understood
def failed_broker(value: bytes) -> int:
    """Parse the id of the broker that has a failed log directory."""
    return layout.whole(layout.read(value)["broker"])


def failed_broker_value(node_id: int) -> bytes:
    """Encode the notification that `failed_broker` parses. Event 1, the failure of a log directory, is the only event."""
    return layout.json_bytes({"version": 1, "broker": node_id, "event": 1})


@_understood
def controller(value: bytes) -> int:
    """Parse the id of the controller."""
    return layout.whole(layout.read(value)["brokerid"])
