"""What the registry's entries of brokers, topics, states and notifications say, in every version of their JSON that Kafka wrote.

Knows the layout, decides nothing. Whatever can't be understood raises `ValueError`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from json import dumps
from typing import Any, NamedTuple, TypeVar

from ottla.cluster import layout
from ottla.cluster.controller.context import (
    RECOVERED,
    Endpoint,
    LeaderAndIsr,
    LiveBroker,
    ReplicaAssignment,
    TopicPartition,
)
from ottla.ports import Entry

T = TypeVar("T")

SECURITY_PROTOCOLS = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}

ISR_CHANGES = "/isr_change_notification"
LOG_DIR_EVENTS = "/log_dir_event_notification"
DELETIONS = "/admin/delete_topics"


class TopicEntry(NamedTuple):
    """What the entry of a topic says, and the version of the entry. Before 2.8 a topic has no id."""

    topic_id: bytes | None
    assignments: dict[int, ReplicaAssignment]
    version: int = 0


def broker(node_id: int, entry: Entry) -> LiveBroker:
    """A broker's registration, of versions 0 to 5."""
    return _understood(lambda: _broker(node_id, entry))


def _broker(node_id: int, entry: Entry) -> LiveBroker:
    stored = layout.read(entry.value)
    protocols = stored.get("listener_security_protocol_map", {})
    texts = stored.get("endpoints") or [f"PLAINTEXT://{stored['host']}:{stored['port']}"]
    features = stored.get("features") or {}
    return LiveBroker(
        node_id,
        entry.created,
        tuple(_endpoint(text, protocols) for text in texts),
        stored.get("rack"),
        tuple((name, int(levels["min_version"]), int(levels["max_version"])) for name, levels in features.items()),
    )


def _endpoint(text: str, protocols: Mapping[str, str]) -> Endpoint:
    listener, _, address = text.partition("://")
    host, _, port = address.rpartition(":")
    protocol = SECURITY_PROTOCOLS[protocols.get(listener, listener)]
    return Endpoint(listener, host.removeprefix("[").removesuffix("]"), int(port), protocol)


def topic(entry: Entry) -> TopicEntry:
    """A topic's entry, of versions 1 to 3."""
    return _understood(lambda: _topic(entry))


def _topic(entry: Entry) -> TopicEntry:
    stored = layout.read(entry.value)
    adding, removing = stored.get("adding_replicas") or {}, stored.get("removing_replicas") or {}
    known: dict[tuple[int, ...], ReplicaAssignment] = {}  # ten thousand partitions have few kinds of them
    assignments = {}
    for text, nodes in stored["partitions"].items():
        replicas = tuple(nodes)
        if text in adding or text in removing:
            assignments[int(text)] = ReplicaAssignment(replicas, tuple(adding.get(text, ())), tuple(removing.get(text, ())))
        else:
            assignments[int(text)] = known.get(replicas) or known.setdefault(replicas, ReplicaAssignment(replicas))
    topic_id = stored.get("topic_id")
    return TopicEntry(None if topic_id is None else layout.uuid_bytes(topic_id), assignments, entry.version)


def topic_value(topic_id: bytes | None, assignments: Mapping[int, ReplicaAssignment]) -> bytes:
    """The inverse of `topic`, in version 3."""
    value: dict[str, Any] = {
        "removing_replicas": {str(index): list(one.removing) for index, one in assignments.items() if one.removing},
        "partitions": {str(index): list(one.replicas) for index, one in assignments.items()},
        "adding_replicas": {str(index): list(one.adding) for index, one in assignments.items() if one.adding},
        "version": 3,
    }
    if topic_id is not None:
        value["topic_id"] = layout.uuid_text(topic_id)
    return dumps(value, separators=layout.SEPARATORS).encode()


def state(entry: Entry) -> LeaderAndIsr:
    """Who leads a partition."""
    return _understood(lambda: _state(entry))


def _state(entry: Entry) -> LeaderAndIsr:
    stored = layout.read(entry.value)
    return LeaderAndIsr(
        int(stored["leader"]),
        int(stored["leader_epoch"]),
        tuple(stored["isr"]),
        int(stored.get("leader_recovery_state", RECOVERED)),
        int(stored["controller_epoch"]),
        entry.version,
    )


def state_value(written: LeaderAndIsr) -> bytes:
    """The inverse of `state`: a leader that has recovered is not told as such, as before 3.2."""
    value: dict[str, Any] = {
        "controller_epoch": written.controller_epoch,
        "leader": written.leader,
        "version": 1,
        "leader_epoch": written.leader_epoch,
        "isr": list(written.isr),
    }
    if written.leader_recovery_state != RECOVERED:
        value["leader_recovery_state"] = written.leader_recovery_state
    return dumps(value, separators=layout.SEPARATORS).encode()


def changed_isrs(value: bytes) -> list[TopicPartition]:
    """The partitions whose in-sync replicas a leader has changed by itself (before 2.7)."""
    return _understood(lambda: [(str(one["topic"]), int(one["partition"])) for one in layout.read(value)["partitions"]])


def changed_isrs_value(partitions: Iterable[TopicPartition]) -> bytes:
    """Encode partitions for `changed_isrs`."""
    value = {"version": 1, "partitions": [{"topic": name, "partition": index} for name, index in partitions]}
    return dumps(value, separators=layout.SEPARATORS).encode()


def broker_epochs(value: bytes) -> dict[int, int]:
    """Return the broker epochs that the last controller has handled, by node id. Raises `ValueError`."""
    return _understood(lambda: {int(node_id): int(epoch) for node_id, epoch in layout.read(value)["brokers"].items()})


def broker_epochs_value(brokers: Iterable[LiveBroker]) -> bytes:
    """Encode the epochs of brokers for `broker_epochs`."""
    epochs = {str(one.node_id): one.epoch for one in sorted(brokers)}
    return dumps({"version": 1, "brokers": epochs}, separators=layout.SEPARATORS).encode()


def failed_broker(value: bytes) -> int:
    """The broker of which a log directory failed."""
    return _understood(lambda: int(layout.read(value)["broker"]))


def failed_broker_value(node_id: int) -> bytes:
    """The inverse of `failed_broker`: event 1 is the failure of a log directory, the only one that there is."""
    return dumps({"version": 1, "broker": node_id, "event": 1}, separators=layout.SEPARATORS).encode()


def controller(value: bytes) -> int:
    """The broker that is the controller."""
    return _understood(lambda: int(layout.read(value)["brokerid"]))


def _understood(read: Callable[[], T]) -> T:
    try:
        return read()
    except (LookupError, TypeError, AttributeError) as error:
        raise ValueError(str(error)) from error
