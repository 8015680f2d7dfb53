"""What a mirror knows of places that mean the same: never a later one at the target, however often a batch was written."""

from __future__ import annotations

from ottla.client.types import TopicPartition
from ottla.pipelines.syncs import MOST, OffsetSync, OffsetSyncs

HERE = TopicPartition("flights", 0)


def test_the_last_sync_before_an_offset_is_found() -> None:
    syncs = OffsetSyncs()
    assert (syncs.before(HERE, 5), syncs.last(HERE)) == (None, None)
    for sync in (OffsetSync(10, 0), OffsetSync(20, 11), OffsetSync(30, 22)):
        syncs.add(HERE, sync)
    found = {offset: syncs.before(HERE, offset) for offset in (0, 10, 19, 20, 99)}
    assert found == {0: (10, 0), 10: (10, 0), 19: (10, 0), 20: (20, 11), 99: (30, 22)}
    assert syncs.last(HERE) == (30, 22)
    assert OffsetSyncs.from_json(syncs.as_json()).as_json() == syncs.as_json()


def test_what_was_noted_first_of_a_place_stays() -> None:
    syncs = OffsetSyncs()
    syncs.add(HERE, OffsetSync(10, 5))
    syncs.add(HERE, OffsetSync(10, 9))
    assert syncs.last(HERE) == (10, 5)


def test_a_partition_that_goes_back_begins_anew() -> None:
    for again in (OffsetSync(5, 12), OffsetSync(12, 3)):
        syncs = OffsetSyncs()
        syncs.add(HERE, OffsetSync(10, 10))
        syncs.add(HERE, again)
        assert syncs.before(HERE, 11) == again


def test_few_syncs_are_kept_of_what_is_long_ago_and_all_of_late() -> None:
    syncs = OffsetSyncs()
    for offset in range(10_000):
        syncs.add(HERE, OffsetSync(offset, offset * 2))
    kept = [sync[0] for sync in syncs.as_json()["flights"]["0"]]
    assert len(kept) <= MOST
    assert kept[0] == 0
    assert kept[-100:] == list(range(9900, 10_000))
