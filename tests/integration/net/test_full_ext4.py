"""The registry and the reserve on a real file system that is full to its last block."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from ottla.net.disk.disk import RealDisk
from ottla.net.disk.reserve import LOAN_BYTES, Reserve
from ottla.ports import Change, StorageFailed
from ottla.registry.count import read_count
from ottla.registry.generations import DIRECTORIES, journal_name
from ottla.registry.journal import JournalRegistry
from tests.support.disks import ext4_disk, fill_to_the_last_block
from tests.support.entries import make_entry, remove_entry

SIZE_BYTES = 32 << 20
KEPT = SIZE_BYTES // 32
MOST = 100_000


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    with ext4_disk(tmp_path / "disk", size_bytes=SIZE_BYTES) as disk:
        (disk / "data").mkdir()
        yield disk / "data"


def opened(root: Path, kept: int) -> RealDisk:
    reserve = Reserve(str(root))
    reserve.keep(kept)
    reserve.refill(kept)
    return RealDisk(str(root), lambda call: call(), reserve=reserve)


def until_refused(names: Iterable[str], make: Callable[[str], None]) -> list[str]:
    """Make one after the other until the disk refuses; returns those that were made."""
    made = list[str]()
    refusal = ""
    for name in names:
        try:
            make(name)
        except StorageFailed as failure:
            refusal = failure.reason
            break
        made.append(name)
    assert refusal == "No space left on device"
    return made


def make_until_refused(registry: JournalRegistry) -> list[str]:
    """Make entries until the disk refuses one; returns their names."""
    return until_refused((f"{number:06d}" for number in range(MOST)), lambda name: make_entry(registry, f"/t/{name}", bytes(500)))


@pytest.mark.parametrize("kept", [0, KEPT])
def test_a_registry_on_a_full_disk_refuses_what_is_new_and_loses_nothing(root: Path, kept: int) -> None:
    with closing(opened(root, kept)) as disk:
        assert disk.reserve.size == kept
        registry = JournalRegistry.open(disk)
        make_entry(registry, "/t")
        fill_to_the_last_block(root.parent / "filler")
        made = make_until_refused(registry)
        assert registry.children("/t") == made
        for name in made[:10]:
            remove_entry(registry, f"/t/{name}")
        registry.commit([Change("/me", b"1", ephemeral=True)])
    with closing(opened(root, kept)) as disk:  # as after a kill
        registry = JournalRegistry.open(disk)
        assert registry.children("/t") == made[10:]
        assert registry.children("/") == ["t"]
        registry.close()
    journals = [(root / directory / journal_name(0)).read_bytes().rstrip(b"\0") for directory in DIRECTORIES]
    assert journals[0] == journals[1]
    (root.parent / "filler").unlink()
    with closing(opened(root, kept)) as disk:
        registry = JournalRegistry.open(disk)
        make_entry(registry, "/t/more", bytes(500))
        assert disk.reserve.size == kept
        assert read_count(disk) == len(made) + 1 + 10 + 2 + 1, "every commit that was taken, and no other"
        registry.close()


def test_a_reserve_lends_until_it_is_used_up_and_is_whole_again_when_there_is_room(root: Path) -> None:
    """What is lent stays written, what is refused leaves nothing behind, and nothing fails but with the system's own reason."""
    kept = 2 * LOAN_BYTES
    with closing(opened(root, kept)) as disk:
        assert disk.reserve.size == min(kept, disk.reserve.wanted)
        fill_to_the_last_block(root.parent / "filler")
        written = until_refused(map(str, range(MOST)), lambda name: disk.write_file(f"checkpoint{name}", name.encode() * 10_000))
        assert len(written) > 20
        assert disk.reserve.size < LOAN_BYTES // 16
        assert {path.name for path in root.glob("checkpoint*")} == {f"checkpoint{name}" for name in written}, "no half of one"
        assert all(disk.read_file(f"checkpoint{name}") == name.encode() * 10_000 for name in written)
        assert disk.reserve.is_disk_full
        disk.remove(f"checkpoint{written.pop()}")
        disk.write_file("small", b"x")
        (root.parent / "filler").unlink()
        disk.reserve.refill(kept)
        assert disk.reserve.size == disk.reserve.wanted
