"""Rules for a copy of a registry: which entries are copied, and their changes for a broker alone. No input or output."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from ottla.cluster import announcements, layout
from ottla.cluster.image import ClusterImage, PartitionImage, TopicImage
from ottla.cluster.registry_entries import load
from ottla.ports import Change, Entries

ROOTS: Final = (
    "/admin", "/brokers", "/cluster", "/config", "/consumers", layout.CONTROLLER_EPOCH, "/delegation_token", layout.FEATURES,
    "/isr_change_notification", "/kafka-acl", "/kafka-acl-extended", layout.PRODUCER_ID_BLOCK, "/log_dir_event_notification",
    layout.UNKNOWN_USERS,
)  # fmt: skip
"""The topmost entries that brokers use. The same directory can contain other entries, for example ZooKeeper's own."""

DELETIONS: Final = "/admin/delete_topics"
MOVES: Final = "/admin/reassign_partitions"
PREFERENCES: Final = "/admin/preferred_replica_election"
NOTES: Final = ("/isr_change_notification", "/log_dir_event_notification", *(each.path for each in announcements.ALL))
"""The directories of notifications, which are not copied, because only running brokers need them."""


class NotCarried(Exception):
    """Raised if the registry cannot be copied. The text says why, and what to do."""


class Carried(NamedTuple):
    """An entry of a registry to copy. Sequences of entries have parents before their children."""

    path: str
    value: bytes
    version: int


def is_carried(path: str) -> bool:
    """Return whether an entry is copied to another registry.

    This is every entry below `ROOTS` except notifications and entries that belong to a session.
    """
    match path.split("/")[1:]:
        case ["brokers", "ids", _, *_] | ["controller"] | ["consumers", _, "ids", _, *_] | ["consumers", _, "owners", _, _]:
            return False
    return not any(path.startswith(f"{above}/") for above in NOTES)


def check_at_rest(members: Iterable[str], where: str) -> None:
    """Raise `NotCarried` while brokers are registered."""
    at_work = sorted(members, key=lambda name: (len(name), name))
    if at_work:
        raise NotCarried(
            f"{_summarize('broker', at_work)} of the cluster in {where} is still registered: stop all its brokers first; one that "
            "was killed is gone when its session has ended, after zookeeper.session.timeout.ms."
        )


def check_free(topics: Iterable[str], carried: Sequence[Carried], where: str) -> None:
    """Raise `NotCarried` if the target has topics that the copy lacks. A copy can be repeated after an interruption."""
    known = {each.path for each in carried}
    others = sorted(name for name in topics if layout.topic_path(name) not in known)
    if others:
        raise NotCarried(f"{where} has {_summarize('topic', others)} already, of another cluster: name an unused path.")


def for_cluster(carried: Iterable[Carried]) -> Iterator[Change]:
    """Yield the changes that write the copied entries to a shared registry.

    The cluster id is last, so that no broker joins an incomplete copy.
    """
    some = [each for each in carried if each.path != layout.BROKER_SEQUENCE]
    for path, value, _ in sorted(some, key=lambda each: each.path == layout.CLUSTER_ID):
        yield Change(path, value)


def numbers_given(carried: Iterable[Carried]) -> int:
    """Return how many broker ids the registry has assigned: the version of an entry.

    The copy of the entry must reach this version too.
    """
    return sum(each.version for each in carried if each.path == layout.BROKER_SEQUENCE)


def for_one(carried: Iterable[Carried], entries: Entries, node_id: int) -> list[Change]:
    """Return the changes that write a copy to the registry of broker `node_id`, which becomes a cluster of one broker.

    The broker then leads every partition. `entries` contains the entries of `carried`. Raises `NotCarried` if topics are being
    deleted or reassigned or are on other brokers, and `RegistryDamaged` if entries cannot be parsed.
    """
    image = ClusterImage()
    load(image, entries)
    _check_finished(image, entries)
    _check_replicas(image, node_id)
    without = {layout.PRODUCER_ID_BLOCK, layout.BROKER_SEQUENCE, MOVES, PREFERENCES}
    changes = [Change(path, value) for path, value, _ in carried if value or path not in without]
    led = [(topic, one) for topic in image.topics.values() for one in topic.partitions if one.isr or one.leader == node_id]
    return changes + [
        _leader_change(image.controller_epoch, topic, one, node_id) for topic, one in led if not _is_led(one, node_id)
    ]


def _check_finished(image: ClusterImage, entries: Entries) -> None:
    leaving = entries.children(DELETIONS)
    if leaving:
        raise NotCarried(
            f"{_summarize('topic', leaving)} is still being deleted: restart the brokers of the cluster until it is deleted."
        )
    move = entries.get(MOVES)
    moving = []
    for name in image.topics:
        entry = entries.get(layout.topic_path(name))
        stored = {} if entry is None else layout.read(entry.value)
        if any(stored.get("adding_replicas", {}).values()) or any(stored.get("removing_replicas", {}).values()):
            moving.append(name)
    if moving or (move is not None and move.value):
        what = _summarize("topic", moving) if moving else "what stands in " + MOVES
        raise NotCarried(f"{what} is still being reassigned: restart the brokers until `ottla cluster reassign` shows no moves.")


def _check_replicas(image: ClusterImage, node_id: int) -> None:
    elsewhere = [
        f"{topic.name}-{one.index}" for topic in image.topics.values() for one in topic.partitions if one.replicas != (node_id,)
    ]
    if elsewhere:
        raise NotCarried(
            f"{_summarize('partition', elsewhere)} has replicas on brokers other than {node_id}: start the cluster, and move "
            f"them there first, with `ottla cluster reassign --brokers {node_id} --replication-factor 1`."
        )


def _is_led(one: PartitionImage, node_id: int) -> bool:
    return one.leader == node_id and one.isr == (node_id,)


def _leader_change(controller_epoch: int, topic: TopicImage, one: PartitionImage, node_id: int) -> Change:
    """Return the change that makes `node_id` the leader and the only in-sync replica of a partition, in a new leader epoch."""
    return Change(
        layout.state_path(topic.name, one.index), layout.state_json(controller_epoch, node_id, one.leader_epoch + 1, [node_id])
    )


def _summarize(what: str, names: Sequence[str]) -> str:
    """Return text for a message: `what`, the first name, and the number of the other names."""
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"{what.capitalize()} {names[0]}{more}"
