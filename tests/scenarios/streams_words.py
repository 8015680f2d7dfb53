"""How plays show the records of streams groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.coord.streams import records as streams


def shown_stored(record: streams.StreamsStored) -> str:
    """A record of a streams group; members and targets by what changed."""
    name = type(record).__name__
    if name.endswith("Forgotten"):
        return f"no {name.removeprefix('Streams').removesuffix('Forgotten').lower()} {' '.join(map(str, record))}"
    if isinstance(record, streams.StreamsEpochStored):
        return f"epoch {record.group_id}: {record.epoch}, topology {record.validated_topology_epoch}"
    if isinstance(record, streams.StreamsTargetEpochStored):
        return f"target epoch {record.group_id}: {record.epoch}"
    if isinstance(record, streams.StreamsTargetStored):
        return f"target {record.group_id} {record.member_id}: {tasks(*record.tasks)}"
    if isinstance(record, streams.StreamsCurrentStored):
        epochs = f"epoch {record.previous_epoch} -> {record.epoch}"
        gives = f", gives back {tasks(*record.revoking)}" if any(record.revoking) else ""
        return f"current {record.group_id} {record.member_id}: {epochs}, {record.state.name}, has {tasks(*record.assigned)}{gives}"
    if isinstance(record, streams.StreamsMemberStored):
        return f"member {record.group_id} {record.member_id} in {record.process_id}"
    assert isinstance(record, streams.TopologyStored)
    return f"topology {record.group_id}: {', '.join(each.subtopology_id for each in record.topology.subtopologies)}"


def tasks(*kinds: Mapping[str, Iterable[int]]) -> str:
    shown = [
        f"{name}_{partition}{suffix}"
        for kind, suffix in zip(kinds, ("", "s", "w"), strict=True)
        for name, partitions in sorted(kind.items())
        for partition in sorted(partitions)
    ]
    return " ".join(shown) or "nothing"
