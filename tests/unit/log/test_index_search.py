"""Look-ups in a sparse index at rest: the same entry as a search through a list finds, in few reads."""

from __future__ import annotations

import random
from bisect import bisect_right
from contextlib import suppress
from itertools import accumulate

import pytest

from ottla.log.segments.index import PAGE, Pair, SparseIndex, offset_index, time_index
from ottla.ports import File, StorageFailed
from ottla.sim.disk import SimDisk


def growing(choice: random.Random, count: int, steps: tuple[int, ...]) -> list[int]:
    return list(accumulate(choice.choice(steps) for _ in range(count)))


def at_rest(kind: str, entries: list[Pair]) -> SparseIndex:
    disk = SimDisk()
    make = offset_index if kind == "offsets" else time_index
    index = make(disk, "index", new=True)
    for first, second in entries:
        index.add(first, second)
    index.flush()
    return make(disk, "index", new=False)


@pytest.mark.parametrize("kind", ["offsets", "times"])
@pytest.mark.parametrize("steps", [(1,), (1, 2, 3), (1, 100_000), (7, 900)], ids=["even", "nearly", "jumping", "uneven"])
@pytest.mark.parametrize("count", [0, 1, PAGE - 1, PAGE, PAGE + 1, 5 * PAGE, 3000])
def test_a_floor_is_what_a_list_says(kind: str, steps: tuple[int, ...], count: int) -> None:
    choice = random.Random(count)
    start = 1_700_000_000_000 if kind == "times" else 0
    firsts = [start + first for first in growing(choice, count, steps)]
    entries = list(zip(firsts, growing(choice, count, steps), strict=True))
    index = at_rest(kind, entries)
    for column, floor in ((0, index.floor), (1, index.floor_second)):
        values = [entry[column] for entry in entries]
        wanted = [choice.choice(values) + choice.randrange(-2, 3) for _ in range(200)] if values else []
        for value in [*wanted, -1, start, 2**40]:
            found = bisect_right(values, value)
            assert floor(value) == (entries[found - 1] if found else None)


def test_positions_that_grow_evenly_are_found_in_one_read(monkeypatch: pytest.MonkeyPatch) -> None:
    choice = random.Random(1)
    positions = growing(choice, 10_000, (4150, 4200, 4250))
    index = at_rest("offsets", list(enumerate(positions, 10)))
    index.floor_second(positions[-1])  # opens it
    reads: list[int] = []
    file = index.flush()
    assert file is not None
    read = type(file).read

    def counted(self: File, position: int, size: int) -> bytes:
        reads.append(size)
        return read(self, position, size)

    monkeypatch.setattr(type(file), "read", counted)
    for position in choice.sample(positions, 100):
        index.floor_second(position + 1)
    assert len(reads) <= 110
    assert max(reads) <= 8 * PAGE


@pytest.mark.parametrize("seed", range(10))
def test_what_is_cleared_does_not_come_back_though_an_earlier_start_could_not_sync_it(seed: int) -> None:
    disk = SimDisk()
    disk.make_dir("t-0")
    disk.write_file("t-0/x.index", bytes(8))
    disk.sync_dir("")
    file = disk.open("t-0/x.index")
    file.truncate(0)  # and no more than that
    disk.kill()
    offset_index(disk, "t-0/x.index", new=False).clear()
    disk.crash(random.Random(seed))
    assert disk.size("t-0/x.index") == 0


@pytest.mark.parametrize("after", range(4))
def test_an_index_whose_cut_could_not_be_synced_is_searched_as_far_as_it_is_there(after: int) -> None:
    disk = SimDisk()
    index = offset_index(disk, "index", new=True)
    for number in range(10):
        index.add(number, 100 * number)
    index.flush()
    disk.fail(after)
    for _ in range(2):
        with suppress(StorageFailed):
            index.keep_below(5, 0)
    disk.heal()
    assert (len(index), index.last(), index.floor(7), index.floor(2)) == (5, (4, 400), (4, 400), (2, 200))
