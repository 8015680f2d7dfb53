"""Damage in a journal's files: no wrong entry comes back, and exactly the partitions whose entries are lost are named."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import NamedTuple

import pytest

from ottla.log.journal.block_walk import heads
from ottla.log.journal.contents import Contents
from ottla.log.journal.format import FILES, VERSION, VOID, BlockHead, BlockPlace, Key, pack_head
from ottla.ports import FileSlice
from ottla.records.checksum import crc32c
from ottla.sim.disk import SimDisk
from tests.unit.log.journals import DIRECTORY, Driver, check, contents, flat, key

FILE_BYTES = 1 << 13
Entries = dict[Key, list[tuple[int, bytes]]]


class Block(NamedTuple):
    """A block, as an undamaged journal has it: its file, the byte at which it begins, and the bytes of each row."""

    name: str
    position: int
    head: BlockHead
    data: list[bytes]

    def rows_at(self, first: int, last: int) -> set[int]:
        """The numbers of the rows that are lost with the bytes from `first` to `last` of the file."""
        head, found = self.head, set[int]()
        if first < head.data_from and last >= self.position:
            return set(range(len(head.entries())))
        at = head.data_from
        for number, row in enumerate(head.entries()):
            if first < at + row.size and last >= at and row.kind != VOID:
                found.add(number)
            at += row.size
        return found


def blocks_of(disk: SimDisk) -> dict[int, Block]:
    found = {}
    for number, name in enumerate(FILES):
        file = disk.open(f"{DIRECTORY}/{name}")
        for position, head in heads(file, number):
            at, data = head.data_from, []
            for row in head.entries():
                data.append(file.read(at, row.size))
                at += row.size
            found[head.sequence] = Block(name, position, head, data)
    return found


def model(blocks: dict[int, Block], first: int, last: int, lost: set[tuple[int, int]]) -> tuple[Entries, set[Key]]:
    """(the entries, the damaged partitions) of the blocks from `first` to `last`, without the lost (sequence, row)."""
    entries: Entries = {}
    damaged: set[Key] = set()
    for sequence in range(first, last + 1):
        for number, row in enumerate(blocks[sequence].head.entries()):
            if row.kind == VOID:
                entries.pop(row.key, None)
                damaged.discard(row.key)
            elif (sequence, number) in lost:
                damaged.add(row.key)
            else:
                entries.setdefault(row.key, []).append((row.base_offset, blocks[sequence].data[number]))
    return entries, damaged


def lived(seed: int) -> Driver:
    """A journal after some turns of both files, with voids, and with blocks of former turns behind the last one."""
    random = Random(seed)
    driver = Driver(SimDisk(), FILE_BYTES)
    driver.begin()
    while len(driver.full) < 3 or driver.journal.room_bytes() > 4000:
        numbers = random.sample(range(6), random.randrange(1, 4))
        driver.put(*(driver.entry(number, random.choice((1, 30, 500, 1000))) for number in numbers))
        if random.random() < 0.15:
            driver.void(random.randrange(6))
        if driver.journal.room_bytes() < 2500:
            driver.sync_all()
    return driver


def damages(seed: int, disk: SimDisk, name: str) -> Iterator[tuple[str, int, int]]:
    """(kind, first byte, last byte): a flipped bit of every byte in turn over the seeds, and every sector zeroed."""
    size = disk.size(f"{DIRECTORY}/{name}")
    for at in range(seed % 37, size, 37):
        yield "bit", at, at
    for at in range(0, size, 512):
        yield "zeros", at, at + 511


def damage(disk: SimDisk, name: str, kind: str, first: int, last: int, bit: int) -> bytes:
    """Damage the file, and return the former bytes."""
    file = disk.open(f"{DIRECTORY}/{name}")
    before = file.read(first, last + 1 - first)
    file.write(first, bytes([before[0] ^ 1 << bit]) if kind == "bit" else bytes(len(before)))
    return before


def effect(blocks: dict[int, Block], name: str, first: int, last: int, is_changed: bool) -> tuple[Entries, set[Key], bool]:
    """(the entries, the damaged partitions, whether the last block counts) that a damage must leave."""
    newest = max(blocks)
    oldest = blocks[newest].head.oldest
    lost = {
        (sequence, row)
        for sequence, block in blocks.items()
        if is_changed and block.name == name
        for row in block.rows_at(first, last)
    }
    is_header = blocks[newest].name == name and first < blocks[newest].head.data_from and last >= blocks[newest].position
    if is_changed and is_header:
        return *model(blocks, blocks[newest - 1].head.oldest, newest - 1, lost), False
    is_torn = any(sequence == newest for sequence, _ in lost)
    return *model(blocks, oldest, newest - is_torn, lost), not is_torn


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("name", FILES)
def test_damage_of_any_byte_or_sector_names_exactly_the_partitions_concerned(seed: int, name: str) -> None:
    driver = lived(seed)
    disk = driver.disk
    blocks = blocks_of(disk)
    whole = contents(disk)
    assert whole.is_whole
    for kind, first, last in damages(seed, disk, name):
        before = damage(disk, name, kind, first, last, (first + seed) % 8)
        is_changed = kind == "bit" or any(before)
        found = contents(disk)
        entries, damaged, counts = effect(blocks, name, first, last, is_changed)
        where = (kind, first, last)
        assert flat(found.entries) == entries, where
        assert set(found.damaged) == damaged, where
        assert not found.unattributed, where
        assert all(f"{DIRECTORY}" in sentence for _, sentence in found.damaged.values())
        assert not found.torn or not counts
        disk.open(f"{DIRECTORY}/{name}").write(first, before)
    assert flat(contents(disk).entries) == flat(whole.entries)


@pytest.mark.parametrize("seed", range(30))
def test_a_torn_last_block_has_never_happened(seed: int) -> None:
    """Also when it is the first one over a file of a former turn, whose blocks it has destroyed."""
    random = Random(seed)
    driver = lived(seed)
    while seed % 2 and driver.journal.room_bytes() > 1500:
        driver.put(driver.entry(0, 700))
    driver.sync_all()
    entries = [driver.entry(number, random.choice((10, 600, 1500))) for number in random.sample(range(6), 2)]
    assert driver.journal.write(entries, driver.results.append)
    for _ in range(random.randrange(3)):
        driver.disk.run_syncs()  # of the block that releases the other file's former blocks, and of this one
    unsure = {entry.key: (entry.base_offset, entry.parts[0].read()) for entry in entries}
    driver.disk.crash(random)
    check(contents(driver.disk), driver, unsure)


def damaged_keys(found: Contents) -> dict[Key, int]:
    return {one: next_offset for one, (next_offset, _) in found.damaged.items()}


def overwrite(disk: SimDisk, block: Block, size: int = 512) -> None:
    disk.open(f"{DIRECTORY}/{block.name}").write(block.position, bytes(size))


def three_blocks() -> Driver:
    driver = Driver(SimDisk(), 1 << 15)
    driver.begin()
    for number in range(3):
        driver.put(driver.entry(number, 600, count=number + 1))
    return driver


def test_the_next_block_names_the_partitions_of_one_whose_header_is_lost() -> None:
    driver = three_blocks()
    overwrite(driver.disk, blocks_of(driver.disk)[2])
    found = contents(driver.disk)
    assert damaged_keys(found) == {key(1): 2}
    assert found.damaged[key(1)].sentence == "journal: block 2 is unreadable, with the acknowledged offsets 0 to 1."
    assert set(found.entries) == {key(0), key(2)}


def test_damaged_bytes_are_named_by_file_and_block() -> None:
    driver = three_blocks()
    block = blocks_of(driver.disk)[2]
    driver.disk.flip_bit(f"{DIRECTORY}/0", 8 * (block.head.data_from + 100))
    found = contents(driver.disk)
    sentence = f"journal/0: the block at byte {block.position} is damaged, with the acknowledged offsets 0 to 1."
    assert found.damaged == {key(1): (2, sentence)}


def test_two_lost_headers_in_a_row_are_reported_without_names() -> None:
    driver = three_blocks()
    driver.put(driver.entry(3))
    for sequence in (2, 3):
        overwrite(driver.disk, blocks_of(driver.disk)[sequence])
    found = contents(driver.disk)
    assert "block 2" in found.unattributed
    assert damaged_keys(found) == {key(2): 3}
    assert not found.is_whole


def test_a_void_needs_no_bytes_of_its_own() -> None:
    driver = three_blocks()
    driver.void(0)
    driver.put(driver.entry(5))
    blocks = blocks_of(driver.disk)
    overwrite(driver.disk, blocks[4])
    found = contents(driver.disk)
    assert found.is_whole
    assert key(0) not in found.entries


def test_damage_before_a_void_is_no_loss() -> None:
    driver = three_blocks()
    driver.void(1)
    overwrite(driver.disk, blocks_of(driver.disk)[2])
    assert contents(driver.disk).is_whole


@pytest.mark.parametrize("change", ["removed", "cut"])
def test_a_file_that_is_missing_or_cut_is_reported(change: str) -> None:
    driver = three_blocks()
    if change == "removed":
        driver.disk.remove(f"{DIRECTORY}/1")
    else:
        driver.disk.open(f"{DIRECTORY}/1").truncate(512)
    found = contents(driver.disk)
    assert "missing or has another size" in found.unattributed
    assert flat(found.entries) == driver.written


def test_records_that_contain_a_journal_are_not_taken_for_its_blocks() -> None:
    """A topic may contain a copy of the journal, at any sector: a block knows its own place."""
    driver = three_blocks()
    copy = driver.disk.read_file(f"{DIRECTORY}/0")[: 3 * 1536]
    entry = driver.entry(7)
    file = driver.disk.open("copy", create=True)
    data = bytes(512 - 72 - 2 * 49) + copy
    file.append([data])
    driver.put(entry._replace(parts=(FileSlice(file, 0, len(data)),), size=len(data)))
    driver.put(driver.entry(8))
    overwrite(driver.disk, blocks_of(driver.disk)[4])
    found = contents(driver.disk)
    assert damaged_keys(found) == {key(7): 1}
    assert set(found.entries) == {key(0), key(1), key(2), key(8)}


def test_blocks_of_a_newer_version_are_not_replayed() -> None:
    driver = three_blocks()
    block = blocks_of(driver.disk)[3]
    newer = bytearray(pack_head(BlockPlace(0, block.position, 1, 3, 1), block.head.block_bytes, 0, b"", b""))
    newer[12:14] = (VERSION + 1).to_bytes(2)
    newer[8:12] = crc32c(memoryview(newer)[12:]).to_bytes(4)
    driver.disk.open(f"{DIRECTORY}/0").write(block.position, newer)
    assert "newer version of Ottla" in contents(driver.disk).unattributed


def test_a_partition_with_several_losses_needs_the_furthest() -> None:
    driver = three_blocks()
    driver.put(driver.entry(1, 100, count=2))
    driver.put(driver.entry(1, 100, count=2))
    blocks = blocks_of(driver.disk)
    for sequence in (2, 4):
        driver.disk.flip_bit(f"{DIRECTORY}/0", 8 * (blocks[sequence].head.data_from + 50))
    found = contents(driver.disk)
    assert damaged_keys(found) == {key(1): 4}
    assert f"byte {blocks[2].position} " in found.damaged[key(1)].sentence


@pytest.mark.parametrize("seed", range(40))
def test_no_damage_brings_a_wrong_entry_back(seed: int) -> None:
    """Many damages at once, also of the same block: parts that are zeroed, flipped, cut or taken from elsewhere in the files."""
    random = Random(seed)
    driver = lived(seed % 8)
    disk = driver.disk
    ever = {one: set(entries) for one, entries in driver.ever.items()}
    for _ in range(12):
        for name in FILES:
            file = disk.open(f"{DIRECTORY}/{name}")
            at, size = random.randrange(file.size), random.choice((1, 8, 49, 512, 2048))
            other = disk.open(f"{DIRECTORY}/{random.choice(FILES)}")
            taken = other.read(random.randrange(other.size) // 512 * 512, size)
            data = random.choice((bytes(size), random.randbytes(size), taken))
            file.write(at, data[: file.size - at])
        found = contents(disk)
        for one, entries in flat(found.entries).items():
            assert set(entries) <= ever[one]
            assert entries == sorted(entries)
