"""The replay of a journal into logs at a start: what was acknowledged is there, once, whatever the logs' own files have lost."""

from __future__ import annotations

from random import Random

import pytest

from ottla.log.errors import Damaged
from ottla.log.journal.contents import Damage, begin_anew
from ottla.log.journal.kept_file import drop_kept, keep_unapplied, void_kept
from ottla.log.journal.replay import replay
from ottla.log.journal.saved_entries import SavedEntry
from ottla.ports import StorageFailed
from ottla.sim.disk import SimDisk
from tests.unit.log.batches import NOW, append, make_batch, read_all, sync
from tests.unit.log.journals import DIRECTORY, Driver, Partition, contents, flat, key


@pytest.fixture
def partition() -> Partition:
    driver = Driver(SimDisk(), 1 << 16)
    driver.begin()
    return Partition(driver)


@pytest.mark.parametrize("seed", range(40))
def test_what_was_acknowledged_survives_power_cuts_once_each(partition: Partition, seed: int) -> None:
    """The process dies after the replay, too, before and after the logs are synced and the journal has begun anew."""
    random = Random(seed)
    for incarnation in range(2, 6):
        for _ in range(random.randrange(1, 12)):
            partition.append(random.randrange(1, 5), random.randrange(1, 400), leader_epoch=incarnation)
            if random.random() < 0.5:
                partition.write()
            elif random.random() < 0.3:
                partition.sync()
        for _ in range(random.randrange(1, 3)):
            entries = partition.restart(random)
            replay(partition.log, entries, NOW)
            partition.check()
            assert replay(partition.log, entries, NOW) == 0
        partition.sync()
        begin_anew(partition.driver.disk, DIRECTORY, incarnation)
        partition.driver = Driver(partition.driver.disk, 1 << 16, incarnation)
        partition.driver.begin()
    assert partition.acknowledged


def test_only_the_batches_behind_the_end_of_the_log_are_appended(partition: Partition) -> None:
    for count in (2, 3, 1):
        partition.append(count)
    entries = [saved(partition)]
    partition.log.truncate_to(3)
    assert partition.log.log_end_offset == 2
    assert replay(partition.log, entries, NOW) == 2
    assert partition.log.log_end_offset == 6
    assert [header.base_offset for header, _ in read_all(partition.log)] == [0, 2, 5]
    partition.log.truncate_to(0)
    assert replay(partition.log, entries, NOW) == 3


def saved(partition: Partition) -> SavedEntry:
    """Write all that is not durable into the journal, and return the entry as a start reads it."""
    partition.write()
    return contents(partition.driver.disk).entries[partition.key][-1]


def test_an_entry_that_the_log_has_is_not_read(partition: Partition) -> None:
    partition.append(3)
    entry = saved(partition)._replace(crc=0)
    assert replay(partition.log, [entry], NOW) == 0
    partition.log.truncate_to(0)
    with pytest.raises(StorageFailed, match="changed since the start"):
        replay(partition.log, [entry], NOW)


def test_missing_batches_before_an_entry_are_damage(partition: Partition) -> None:
    partition.append(3)
    partition.write()
    partition.append(2)
    entry = saved(partition)
    partition.log.truncate_to(0)
    with pytest.raises(Damaged, match="continues at offset 3, and the records before it are missing"):
        replay(partition.log, [entry], NOW)
    with pytest.raises(Damaged, match=r"journal/0 is bad\."):
        replay(partition.log, [entry], NOW, Damage(3, "journal/0 is bad."))


def test_damage_is_none_if_the_log_itself_has_the_batches(partition: Partition) -> None:
    partition.append(3)
    assert replay(partition.log, [], NOW, Damage(3, "journal/0 is bad.")) == 0
    with pytest.raises(Damaged, match=r"journal/0 is bad\."):
        replay(partition.log, [], NOW, Damage(4, "journal/0 is bad."))


def test_a_log_that_ends_within_a_batch_is_damage(partition: Partition) -> None:
    partition.append(3)
    entry = saved(partition)
    partition.log.truncate_to(0)
    partition.append(2)
    with pytest.raises(Damaged, match="ends within the journal's batch from offset 0 to 2"):
        replay(partition.log, [entry], NOW)


def test_an_entry_with_other_batches_than_it_says_is_damage(partition: Partition) -> None:
    partition.append(3)
    entry = saved(partition)._replace(next_offset=9)
    partition.log.truncate_to(0)
    with pytest.raises(Damaged, match="are not those of its entry"):
        replay(partition.log, [entry], NOW)


@pytest.mark.parametrize("start", [4, 5, 7, 10])
def test_deleted_records_do_not_return(partition: Partition, start: int) -> None:
    """The new log start was durable, the log itself was not: it begins anew there, even within a batch."""
    for _ in range(5):
        partition.append(2)
    partition.write()
    partition.log.delete_records(start)
    partition.log_start_offset = start
    disk = partition.driver.disk
    for name in disk.list("t-0"):
        disk.remove(f"t-0/{name}")
    entries = partition.restart()
    assert (partition.log.log_start_offset, partition.log.log_end_offset) == (start, start)
    replay(partition.log, entries, NOW)
    assert partition.log.log_start_offset == start
    assert partition.log.log_end_offset == 10
    got = [header.base_offset for header, _ in read_all(partition.log)]
    assert got == [offset for offset in range(0, 10, 2) if offset + 2 > start]
    sync(partition.log)
    partition.recovery_point = 10
    partition.restart(Random(4))
    assert (partition.log.log_start_offset, partition.log.log_end_offset) == (start, 10)


def test_producers_and_epochs_are_those_of_the_batches(partition: Partition) -> None:
    partition.append(2, producer_id=7, epoch=0, sequence=0, leader_epoch=3)
    partition.append(1, producer_id=7, epoch=0, sequence=2, leader_epoch=4)
    partition.write()
    before, epochs = partition.log.producers.encode(), list(partition.log.epochs.entries)
    disk = partition.driver.disk
    for name in disk.list("t-0"):
        disk.remove(f"t-0/{name}")
    entries = partition.restart()
    assert replay(partition.log, entries, NOW) == 2
    assert partition.log.producers.encode() == before
    assert partition.log.epochs.entries == epochs
    duplicate = append(partition.log, make_batch(1, producer_id=7, epoch=0, sequence=2))
    assert duplicate.duplicate


# The kept file


def test_entries_of_partitions_that_are_not_open_are_kept_for_the_next_start() -> None:
    driver = Driver(SimDisk())
    driver.begin()
    driver.put(driver.entry(0), driver.entry(1))
    driver.put(driver.entry(1))
    found = contents(driver.disk)
    lost = Damage(9, "journal/0: the block at byte 512 is damaged.")
    rest = {one: entries for one, entries in found.entries.items() if one != key(0)}
    kept = keep_unapplied(driver.disk, DIRECTORY, rest, {key(5): lost})
    begin_anew(driver.disk, DIRECTORY, 2)
    driver.disk.remove(f"{DIRECTORY}/0")
    assert flat(kept) == {key(1): driver.written[key(1)]}
    driver.disk.crash(Random(2))
    again = contents(driver.disk)
    assert flat(again.entries) == {key(1): driver.written[key(1)]}
    assert again.damaged == {key(5): lost}
    third = keep_unapplied(driver.disk, DIRECTORY, again.entries, again.damaged)
    assert flat(third) == flat(again.entries)


def test_kept_entries_precede_those_of_the_files() -> None:
    driver = Driver(SimDisk())
    driver.begin()
    driver.put(driver.entry(0), driver.entry(1))
    keep_unapplied(driver.disk, DIRECTORY, contents(driver.disk).entries, {})
    begin_anew(driver.disk, DIRECTORY, 2)
    second = Driver(driver.disk, incarnation=2)
    second.begin()
    second.next_offsets, second.written = driver.next_offsets, driver.written
    second.put(second.entry(0))
    assert flat(contents(driver.disk).entries) == driver.written
    second.void(0)
    assert flat(contents(driver.disk).entries) == {key(1): driver.written[key(1)]}


@pytest.mark.parametrize("seed", range(10))
def test_kept_entries_are_void_once_their_partitions_have_them(seed: int) -> None:
    driver = Driver(SimDisk())
    driver.begin()
    driver.put(*(driver.entry(number) for number in range(4)))
    keep_unapplied(driver.disk, DIRECTORY, contents(driver.disk).entries, {key(9): Damage(4, "lost")})
    begin_anew(driver.disk, DIRECTORY, 2)
    void_kept(driver.disk, DIRECTORY, [key(0)])
    void_kept(driver.disk, DIRECTORY, [key(3), key(9)])
    driver.disk.crash(Random(seed))
    found = contents(driver.disk)
    assert set(found.entries) == {key(1), key(2)}
    assert found.is_whole
    driver.disk.fail(after=2)
    with pytest.raises(StorageFailed):
        void_kept(driver.disk, DIRECTORY, [key(1)])
    driver.disk.crash(Random(seed))
    found = contents(driver.disk)
    assert key(2) in found.entries
    assert found.is_whole
    void_kept(driver.disk, DIRECTORY, [key(1), key(2)])
    assert not contents(driver.disk).entries


def test_nothing_to_keep_leaves_no_file() -> None:
    driver = Driver(SimDisk())
    driver.begin()
    driver.put(driver.entry(0))
    assert keep_unapplied(driver.disk, DIRECTORY, contents(driver.disk).entries, {})
    assert keep_unapplied(driver.disk, DIRECTORY, {}, {}) == {}
    assert not driver.disk.exists(f"{DIRECTORY}/kept")
    drop_kept(driver.disk, DIRECTORY)


@pytest.mark.parametrize("sector", range(4))
def test_damage_of_the_kept_file_is_named(sector: int) -> None:
    driver = Driver(SimDisk())
    driver.begin()
    driver.put(*(driver.entry(number, 400) for number in range(2)))
    keep_unapplied(driver.disk, DIRECTORY, contents(driver.disk).entries, {})
    begin_anew(driver.disk, DIRECTORY, 2)
    void_kept(driver.disk, DIRECTORY, [key(7)])
    driver.disk.open(f"{DIRECTORY}/kept").write(512 * sector, bytes(300))
    found = contents(driver.disk)
    assert set(found.damaged) == ({key(0), key(1)}, {key(0), key(1)}, {key(1)}, set())[sector]
    for one, entries in flat(found.entries).items():
        assert entries == driver.written[one]
