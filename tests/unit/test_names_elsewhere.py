"""Names of a disk that are in another directory, and copies that take the place of their originals, by both disks."""

from __future__ import annotations

import pytest

from ottla.ports import Disk, File, TryAgain
from ottla.sim.disk import IO_ERROR, SimDisk
from tests.support.disk_subjects import Subject, refused, written


def placed(disk: Disk, subject: Subject, name: str = "t-0") -> str:
    """Put a name into another directory, and return the directory."""
    directory = subject.elsewhere()
    disk.put(name, directory)
    disk.make_dir(name)
    return directory


def test_a_name_can_be_in_another_directory(disk: Disk, subject: Subject) -> None:
    directory = placed(disk, subject)
    written(disk, "t-0/a")
    disk.write_file("t-0/b", b"b")
    assert disk.list("") == [name for name in disk.list("") if name != "t-0"]
    assert disk.list(directory) == ["t-0"]
    assert (disk.list("t-0"), disk.list(f"{directory}/t-0")) == (["a", "b"], ["a", "b"])
    assert disk.read_file("t-0/b") == disk.read_file(f"{directory}/t-0/b")
    assert (disk.size("t-0/a"), disk.exists("t-0/a"), disk.exists("t-0/c")) == (4, True, False)
    disk.remove("t-0/b")
    assert disk.list("t-0") == ["a"]
    assert refused(lambda: disk.open("t-0/c")).path == f"{directory}/t-0/c", "messages name the real file"


def test_a_name_that_is_renamed_stays_in_its_directory_until_it_is_removed(disk: Disk, subject: Subject) -> None:
    directory = placed(disk, subject)
    file = written(disk, "t-0/a")
    disk.rename("t-0", "t-0-delete", sync=False)
    assert (disk.list(directory), disk.list("t-0-delete"), disk.exists("t-0")) == (["t-0-delete"], ["a"], False)
    assert (file.path, file.read(0, 9)) == ("t-0-delete/a", b"data") or isinstance(disk, SimDisk)
    disk.make_dir("t-0")
    assert "t-0" in disk.list(""), "the name is free again"
    disk.remove_tree("t-0-delete")
    assert disk.list(directory) == []
    disk.make_dir("t-0-delete")
    assert "t-0-delete" in disk.list("")


def test_a_sync_in_another_directory_makes_its_names_durable(disk: Disk, subject: Subject) -> None:
    directory = placed(disk, subject)
    assert subject.outcome(written(disk, "t-0/a")) is None
    subject.assert_stable(f"{directory}/t-0/a")


def copied(disk: Disk, subject: Subject, *, to: str) -> tuple[File, File]:
    """Make a partition with two files and its copy, which is synced. Return the two files."""
    disk.make_dir("t-0")
    one, other = written(disk, "t-0/one", b"first"), written(disk, "t-0/other", b"second")
    assert subject.outcome(one, other) is None
    disk.put("t-0-future", to)
    disk.make_dir("t-0-future")
    copies = [written(disk, f"t-0-future/{name}", data) for name, data in (("one", b"first"), ("other", b"second"))]
    assert subject.outcome(*copies, disk.directory("t-0-future")) is None
    return one, other


@pytest.mark.parametrize("back", [False, True])
def test_a_copy_takes_the_place_of_its_original(disk: Disk, subject: Subject, back: bool) -> None:
    directory = subject.elsewhere()
    source, target = (directory, "") if back else ("", directory)
    disk.put("t-0", source)
    one, other = copied(disk, subject, to=target)
    disk.exchange("t-0", "t-0-future")
    one.append([b" more"])
    assert (one.read(0, 99), other.read(0, 99)) == (b"first more", b"second")
    assert disk.open("t-0/one") is one
    real = f"{target}/t-0" if target else "t-0"
    assert (disk.read_file("t-0/one"), disk.list(real)) == (b"first more", ["one", "other"])
    assert disk.read_file("t-0-future/one") == b"first", "the name of the copy means the original now"
    disk.rename("t-0-future", "t-0-delete", sync=False)
    assert "t-0-delete" in disk.list(source)
    disk.remove_tree("t-0-delete")
    assert [name for name in (*disk.list(""), *disk.list(directory)) if name.startswith("t-")] == ["t-0"]
    assert subject.outcome(one) is None
    subject.assert_stable(f"{real}/one")
    subject.kill()
    assert subject.disk.read_file(f"{real}/one") == b"first more"


def test_a_copy_waits_for_the_syncs_of_its_original(disk: Disk, subject: Subject) -> None:
    one, _ = copied(disk, subject, to=subject.elsewhere())
    one.append([b" more"])
    go_on = subject.asked(one)
    with pytest.raises(TryAgain, match="a sync of its files is running"):
        disk.exchange("t-0", "t-0-future")
    assert go_on() is None
    assert one.read(0, 99) == b"first more"


def test_a_copy_that_cannot_be_renamed_changes_nothing(disk: Disk, subject: Subject) -> None:
    one, _ = copied(disk, subject, to=subject.elsewhere())
    subject.fail(0, IO_ERROR)
    refused(lambda: disk.exchange("t-0", "t-0-future"))
    one.append([b" more"])
    assert (disk.read_file("t-0/one"), disk.read_file("t-0-future/one")) == (b"first more", b"first")


def test_writes_and_truncations_are_counted_and_appends_are_not(disk: Disk, subject: Subject) -> None:
    file = written(disk, "a")
    before = file.rewrites
    file.append([b"more"])
    file.reserve(100)
    subject.close_handles()
    assert (file.read(0, 4), file.rewrites) == (b"data", before)
    file.write(0, b"D")
    file.truncate(2)
    assert file.rewrites == before + 2
