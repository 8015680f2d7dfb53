"""The journal: what was acknowledged is read again, in order, through turns of both files, restarts and voids."""

from __future__ import annotations

from contextlib import suppress
from random import Random

import pytest

from ottla.log.journal.contents import begin_anew, latest_incarnation
from ottla.log.journal.format import FILES, INCARNATION
from ottla.log.journal.journal import ROW_BYTES, Journal
from ottla.ports import FileSlice, StorageFailed, SyncFailed
from ottla.records.batches.header import HEADER_BYTES
from ottla.sim.disk import NO_SPACE, SimDisk
from tests.unit.log.journals import DIRECTORY, FILE_BYTES, Driver, check, contents, flat, key, restart


@pytest.fixture
def driver() -> Driver:
    made = Driver(SimDisk())
    made.begin()
    return made


def test_a_power_cut_loses_nothing_that_was_written(driver: Driver) -> None:
    driver.put(driver.entry(0), driver.entry(1, size=700))
    driver.put(driver.entry(0, count=3))
    driver.disk.crash(Random(1))
    found = contents(driver.disk)
    assert flat(found.entries) == driver.written
    assert found.is_whole
    assert (found.blocks, found.incarnation, found.torn) == (2, 1, "")


def test_bytes_of_several_files_are_one_entry(driver: Driver) -> None:
    first, second = driver.entry(0), driver.entry(0)
    both = first._replace(next_offset=2, parts=(*first.parts, *second.parts), size=first.size + second.size)
    assert driver.put(both)
    assert flat(contents(driver.disk).entries) == driver.written


def test_nothing_is_written_before_the_journal_has_begun() -> None:
    driver = Driver(SimDisk())
    assert driver.journal.room_bytes() == 0
    assert not driver.journal.write([driver.entry(0)], driver.results.append)
    driver.journal.begin(driver.results.append)
    assert not driver.results
    assert not driver.journal.is_ready
    driver.run()
    assert driver.results == [None]
    assert driver.journal.room_bytes() > 0


def test_one_block_at_a_time_is_written(driver: Driver) -> None:
    assert driver.journal.write([driver.entry(0)], driver.results.append)
    assert driver.journal.is_writing
    with pytest.raises(AssertionError):
        driver.journal.write([driver.entry(1)], driver.results.append)
    driver.run()
    assert not driver.journal.is_writing


def test_a_slice_that_cannot_be_read_changes_nothing(driver: Driver) -> None:
    whole = driver.entry(0)
    short = whole._replace(parts=(FileSlice(whole.parts[0].file, 0, whole.size + 1),), size=whole.size + 1)
    with pytest.raises(StorageFailed, match="ends before byte"):
        driver.journal.write([short], driver.results.append)
    assert not driver.journal.is_writing
    assert not driver.journal.ends()
    assert driver.put(whole)
    assert flat(contents(driver.disk).entries) == driver.written


def test_a_failed_write_ends_the_use_of_the_journal(driver: Driver) -> None:
    driver.put(driver.entry(0))
    assert driver.journal.write([driver.entry(1)], driver.results.append)
    driver.disk.fail(after=0)
    driver.run()
    failure = driver.results.pop()
    assert failure is not None
    assert driver.journal.failure is failure
    assert not driver.journal.is_ready
    assert driver.journal.room_bytes() == 0
    assert not driver.journal.write([driver.entry(0)], driver.results.append)
    driver.disk.crash(Random(3))
    found = contents(driver.disk)
    assert flat(found.entries)[key(0)] == driver.written[key(0)]
    assert found.is_whole


def test_a_disk_without_room_leaves_the_broker_without_a_journal() -> None:
    disk = SimDisk()
    disk.capacity_bytes = 3 * FILE_BYTES // 2
    driver = Driver(disk)
    driver.journal.begin(driver.results.append)
    driver.run()
    failure = driver.results.pop()
    assert failure is not None
    assert failure.reason == NO_SPACE
    assert not driver.journal.is_ready


@pytest.mark.parametrize("after", range(6))
def test_a_failure_while_it_begins_is_reported_once(after: int) -> None:
    driver = Driver(SimDisk())
    driver.disk.fail(after=after, count=2)
    driver.journal.begin(driver.results.append)
    assert not driver.results
    driver.run()
    assert len(driver.results) == 1
    assert isinstance(driver.results[0], StorageFailed)
    assert not driver.journal.is_ready


# Turns of the two files


def test_a_file_is_left_once_it_is_full_and_its_partitions_are_reported(driver: Driver) -> None:
    while not driver.full:
        assert driver.put(driver.entry(len(driver.written)))
    left = driver.full[0]
    newest = max(driver.written)
    assert left == {one: 1 for one in driver.written if one != newest}
    assert driver.journal.ends() == dict.fromkeys(driver.written, 1)


def test_a_full_journal_waits_for_the_syncs_of_one_file(driver: Driver) -> None:
    while driver.put(driver.entry(0)):
        pass
    end = driver.written[key(0)][-1][0] + 1
    assert driver.journal.room_bytes() < 2 * 512
    left = driver.full[0][key(0)]
    driver.journal.note_synced(key(0), left - 1)
    assert not driver.put(driver.entry(1))
    driver.journal.note_synced(key(0), left)
    assert driver.put(driver.entry(1))
    assert driver.journal.ends() == {key(0): end, key(1): 2}
    assert driver.full[1] == {key(0): end}


def test_a_deleted_partition_does_not_keep_a_file(driver: Driver) -> None:
    while driver.put(driver.entry(0)):
        pass
    driver.journal.forget(key(0))
    assert not driver.journal.ends()
    assert not driver.journal.holds(key(0))
    assert driver.put(driver.entry(1))


@pytest.mark.parametrize("file_bytes", [65537, 70000])
def test_a_size_that_is_no_multiple_of_a_block_is_rounded_down(file_bytes: int) -> None:
    driver = Driver(SimDisk(), file_bytes=file_bytes)
    driver.begin()
    assert driver.put(driver.entry(0))
    assert [driver.disk.size(f"{DIRECTORY}/{name}") for name in FILES] == [file_bytes // 4096 * 4096] * 2


@pytest.mark.parametrize("seed", range(6))
def test_both_files_are_used_in_turn_for_thousands_of_blocks(seed: int) -> None:
    """At each moment a power cut leaves every entry that no own file has, and no other than the newest ones."""
    random = Random(seed)
    driver = Driver(SimDisk(), file_bytes=1 << 13)
    driver.begin()
    blocks = 0
    while blocks < 600:
        entries = [driver.entry(number, random.randrange(1, 900)) for number in random.sample(range(4), random.randrange(1, 4))]
        if driver.put(*entries):
            blocks += 1
        else:
            driver.next_offsets |= {entry.key: entry.base_offset for entry in entries}  # they are not in the log
        if random.random() < 0.2 or driver.journal.room_bytes() < 3000:
            driver.sync(random.randrange(4))
        if blocks % 10 == 0:
            found = contents(driver.disk)
            check(found, driver)
            assert not found.torn
    assert len(driver.full) > 20


def test_a_block_of_ten_thousand_partitions_is_read_again() -> None:
    driver = Driver(SimDisk(), file_bytes=4 << 20)
    driver.begin()
    entry = driver.entry(0)
    entries = [entry._replace(key=key(number)) for number in range(10_000)]
    assert driver.put(*entries)
    assert driver.put(driver.entry(0))
    found = contents(driver.disk)
    assert found.is_whole
    assert len(found.entries) == 10_000
    assert len(found.entries[key(0)]) == 2


@pytest.mark.parametrize("parts", [1, 2, 5])
def test_a_write_takes_what_room_bytes_returns_and_no_more(driver: Driver, parts: int) -> None:
    """`ROW_BYTES` are counted for each entry, but for the first one's row in the next block, which the rounding of sizes takes."""
    driver.put(driver.entry(9))
    size = driver.journal.room_bytes() - parts * ROW_BYTES - parts * HEADER_BYTES
    sizes = [size // parts + (number < size % parts) for number in range(parts)]
    too_much = [driver.entry(number, size + 4 * 512) for number, size in enumerate(sizes)]
    assert not driver.journal.write(too_much, driver.results.append)
    driver.next_offsets.clear()
    assert driver.journal.write([driver.entry(number, size) for number, size in enumerate(sizes)], driver.results.append)
    driver.run()
    assert driver.results == [None]


# Voids


def test_entries_before_a_void_are_not_read(driver: Driver) -> None:
    driver.put(driver.entry(0), driver.entry(1))
    assert driver.journal.holds(key(0))
    assert driver.void(0)
    assert not driver.journal.holds(key(0))
    assert driver.journal.ends() == {key(1): 1}
    assert flat(contents(driver.disk).entries) == driver.written
    driver.put(driver.entry(0))
    assert flat(contents(driver.disk).entries) == driver.written


def test_a_void_that_is_not_durable_has_not_happened(driver: Driver) -> None:
    driver.put(driver.entry(0))
    assert driver.journal.void([key(0)], driver.results.append)
    assert driver.journal.holds(key(0))
    assert not driver.results


def test_a_full_journal_has_room_for_voids(driver: Driver) -> None:
    while driver.put(driver.entry(0)):
        pass
    assert driver.void(0)
    assert driver.void(1)
    assert contents(driver.disk).entries == {}
    assert driver.put(driver.entry(1)), "a void frees the file as a sync does"


# Incarnations


def test_entries_of_an_older_incarnation_are_void_once_the_new_one_has_begun(driver: Driver) -> None:
    driver.put(driver.entry(0))
    second = restart(driver.disk)
    assert contents(driver.disk).entries == {}
    second.begin()
    second.put(second.entry(7))
    found = contents(driver.disk)
    assert flat(found.entries) == second.written
    assert found.incarnation == second.journal.incarnation == 2
    assert latest_incarnation(driver.disk, DIRECTORY) == 2


def test_a_start_without_a_journal_leaves_no_trace() -> None:
    disk = SimDisk()
    begin_anew(disk, DIRECTORY, 5)
    assert disk.list("") == []
    assert latest_incarnation(disk, DIRECTORY) == 0
    assert contents(disk).is_whole


@pytest.mark.parametrize("seed", range(20))
def test_a_start_on_a_full_disk_overwrites_the_number_of_the_incarnation(driver: Driver, seed: int) -> None:
    """Only the data directory has a reserve, so a full disk of another log directory must not prevent a start."""
    driver.put(driver.entry(0))
    disk, power_cut = driver.disk, seed % 6
    disk.capacity_bytes = disk.used_bytes
    if power_cut:
        disk.fail(power_cut)
        with suppress(StorageFailed):
            begin_anew(disk, DIRECTORY, 2)
        disk.crash(Random(seed))
        assert latest_incarnation(disk, DIRECTORY) in (1, 2)
    else:
        begin_anew(disk, DIRECTORY, 2)
        disk.crash(Random(seed))
        disk.capacity_bytes = None
        assert latest_incarnation(disk, DIRECTORY) == 2
        assert contents(disk).entries == {}


@pytest.mark.parametrize("file_bytes", [FILE_BYTES, 2 * FILE_BYTES])
@pytest.mark.parametrize("seed", range(10))
def test_a_power_cut_at_any_operation_of_a_start_leaves_the_old_entries_or_voids_them(file_bytes: int, seed: int) -> None:
    """Also when the files have another size from then on, so that new ones replace them."""
    random = Random(seed)
    for steps in range(12):
        driver = Driver(SimDisk())
        driver.begin()
        for _ in range(30):
            driver.put(driver.entry(0, size=random.randrange(500)))
            if driver.journal.room_bytes() < 3000:
                driver.sync_all()
        before = flat(contents(driver.disk).entries)
        second = Driver(driver.disk, file_bytes, incarnation=2)
        second.journal.begin(second.results.append)
        for _ in range(steps):
            driver.disk.run_syncs()
        driver.disk.crash(random)
        found = contents(driver.disk)
        assert found.is_whole
        assert flat(found.entries) in (before, {})
        assert not second.journal.is_ready or not found.entries


def test_a_journal_whose_files_have_another_size_begins_with_new_files(driver: Driver) -> None:
    driver.put(driver.entry(0))
    second = restart(driver.disk, 2 * FILE_BYTES)
    second.begin()
    assert [driver.disk.size(f"{DIRECTORY}/{name}") for name in FILES] == [2 * FILE_BYTES] * 2
    second.put(second.entry(3))
    assert flat(contents(driver.disk).entries) == second.written


def test_a_damaged_number_of_the_incarnation_is_read_from_its_copy(driver: Driver) -> None:
    driver.put(driver.entry(0))
    driver.disk.flip_bit(f"{DIRECTORY}/{INCARNATION}", 75)
    assert flat(contents(driver.disk).entries) == driver.written
    assert latest_incarnation(driver.disk, DIRECTORY) == 1


@pytest.mark.parametrize("is_removed", [True, False])
def test_without_the_number_of_the_incarnation_no_entry_is_trusted(driver: Driver, is_removed: bool) -> None:
    """Logs may have been truncated since an older incarnation was void."""
    driver.put(driver.entry(0))
    path = f"{DIRECTORY}/{INCARNATION}"
    if is_removed:
        driver.disk.remove(path)
    else:
        driver.disk.flip_bit(path, 3)
        driver.disk.flip_bit(path, 8 * 512 + 3)
    found = contents(driver.disk)
    assert found.entries == {}
    assert INCARNATION in found.unattributed
    assert found.incarnation == 1
    assert latest_incarnation(driver.disk, DIRECTORY) == 1


def test_close_ends_the_use_of_the_journal(driver: Driver) -> None:
    driver.put(driver.entry(0))
    driver.journal.close()
    assert not driver.journal.is_ready
    assert driver.journal.room_bytes() == 0
    assert flat(contents(driver.disk).entries) == driver.written


def test_a_journal_that_never_began_is_closed() -> None:
    journal = Journal(SimDisk(), DIRECTORY, FILE_BYTES, 1, lambda ends: None)
    journal.close()
    assert not journal.ends()


# The release of a file's former blocks


def fill(driver: Driver) -> None:
    """Fill the first file with a partition, and the second one with another."""
    scout, count = Driver(SimDisk()), 0
    scout.begin()
    while not scout.full:
        scout.put(scout.entry(0, 100))
        count += 1
    for _ in range(count - 1):
        driver.put(driver.entry(0, 100))
    while driver.put(driver.entry(1, 100)):
        pass
    driver.next_offsets[key(1)] -= 1  # the last one did not fit
    assert driver.journal.ends() == driver.next_offsets


@pytest.mark.parametrize("seed", range(20))
def test_a_torn_write_over_released_blocks_is_no_damage(seed: int) -> None:
    """Without a durable block that releases them, a large torn block would look like the loss of many."""
    driver = Driver(SimDisk())
    driver.begin()
    fill(driver)
    driver.sync(0)
    large = driver.entry(2, 8000)
    assert driver.journal.write([large], driver.results.append)
    unsure = {large.key: (0, large.parts[0].read())}
    if seed % 2:
        driver.disk.run_syncs()
    assert not driver.results
    driver.disk.kill(Random(seed))
    found = contents(driver.disk)
    check(found, driver, unsure)
    assert key(0) not in found.entries or not seed % 2


def test_the_block_that_releases_a_file_fits_behind_any_other(driver: Driver) -> None:
    fill(driver)
    count = 40
    while count:
        if not driver.void(*range(100, 100 + count)):
            count -= 1
    assert not driver.void(100)
    driver.sync(0)
    assert driver.put(driver.entry(2, 8000))
    assert flat(contents(driver.disk).entries) == {one: rest for one, rest in driver.written.items() if one != key(0)}


def test_a_partition_is_not_held_once_its_file_is_used_again(driver: Driver) -> None:
    fill(driver)
    driver.sync(0)
    assert driver.journal.holds(key(0))
    assert driver.put(driver.entry(2, 8000))
    assert not driver.journal.holds(key(0))
    assert driver.journal.holds(key(1))
    assert driver.journal.holds(key(2))


@pytest.mark.parametrize("fails", [0, 1])
def test_a_failure_of_either_of_two_writes_is_reported_once(driver: Driver, fails: int) -> None:
    fill(driver)
    driver.sync(0)
    assert driver.journal.write([driver.entry(2, 8000)], driver.results.append)
    for _ in range(fails):
        driver.disk.run_syncs()
    driver.disk.fail(after=0)
    driver.run()
    assert [type(each) for each in driver.results] == [SyncFailed]
    assert driver.journal.failure is driver.results[0]
