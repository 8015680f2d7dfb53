"""How plays show the records of share groups."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.coord.share import records as share
from tests.scenarios.consumer_words import places


def shown_stored(record: share.ShareStored) -> str:
    """A record of a share group; members and targets by what changed."""
    name = type(record).__name__
    if name.endswith("Forgotten"):
        return f"no {name.removeprefix('Share').removesuffix('Forgotten').lower()} {' '.join(map(str, record))}"
    if isinstance(record, share.ShareEpochStored):
        return f"epoch {record.group_id}: {record.epoch}" + ("" if record.metadata_hash else ", no topics")
    if isinstance(record, share.ShareTargetEpochStored):
        return f"target epoch {record.group_id}: {record.epoch}"
    if isinstance(record, share.ShareTargetStored):
        return f"target {record.group_id} {record.member_id}: {places(record.partitions)}"
    if isinstance(record, share.ShareCurrentStored):
        epochs = f"epoch {record.previous_epoch} -> {record.epoch}"
        return f"current {record.group_id} {record.member_id}: {epochs}, has {places(record.assigned)}"
    if isinstance(record, share.ShareMemberStored):
        return f"member {record.group_id} {record.member_id}: {','.join(sorted(record.topics)) or 'no topic'}"
    assert isinstance(record, share.ShareStateStored)
    gone = ",".join(sorted(record.deleting.values()))
    return (
        f"state {record.group_id}: {named(record.initializing)} begun, {named(record.initialized)} made, {gone or 'nothing'} going"
    )


def named(topics: share.PartitionsByTopic) -> str:
    held: Mapping[bytes, frozenset[int]] = {topic_id: held.partitions for topic_id, held in topics.items()}
    return places(held)
