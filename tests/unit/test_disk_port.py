"""What every `Disk` does, the real one and the simulated one: both are held to the same words, and refuse the same things."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.ports import Disk, File, StorageFailed, Syncable, SyncFailed, TryAgain
from ottla.sim.disk import IO_ERROR, NO_SPACE, TOO_MANY_FILES
from tests.support.disk_subjects import Real, Subject, refused, written


def test_appends_follow_one_another_and_are_read_back(disk: Disk) -> None:
    file = disk.open("log", create=True)
    assert file.append([b"abc", bytearray(b"de")]) == 0
    assert file.append((memoryview(b"fgh"),)) == 5
    assert (file.size, file.read(3, 4), file.read(6, 100), file.read(9, 1)) == (8, b"defg", b"gh", b"")
    assert (disk.size("log"), disk.read_file("log"), disk.exists("log")) == (8, b"abcdefgh", True)


def test_what_is_written_beyond_the_end_has_zeros_before_it(disk: Disk) -> None:
    file = written(disk, "log")
    file.write(6, b"x")
    file.write(0, b"D")
    assert (file.size, file.read(0, 9)) == (7, b"Data\0\0x")
    file.truncate(2)
    assert file.append([b"!"]) == 2
    assert disk.read_file("log") == b"Da!"


def test_room_is_not_seen_in_the_size_until_the_file_is_opened_anew(disk: Disk, subject: Subject) -> None:
    file = written(disk, "log")
    file.reserve(100)
    assert (file.size, disk.size("log")) == (4, 100)
    assert file.append([b"more"]) == 4
    assert disk.open("log") is file
    del file
    assert disk.open("log").size == 100


def test_a_name_opens_the_same_file_for_everybody(disk: Disk) -> None:
    file = written(disk, "log")
    assert disk.open("log") is file
    file.close()
    assert disk.open("log") is file
    assert file.read(0, 9) == b"data"


def test_a_file_that_was_closed_behind_the_scenes_is_opened_again(disk: Disk, subject: Subject) -> None:
    file = written(disk, "log")
    subject.close_handles()
    assert file.append([b"more"]) == 4
    assert file.read(0, 9) == b"datamore"


def test_a_removed_file_is_read_until_it_is_closed(disk: Disk) -> None:
    file = written(disk, "log")
    disk.remove("log")
    assert (disk.exists("log"), file.read(0, 9)) == (False, b"data")
    file.close()
    for call in (lambda: file.read(0, 9), lambda: file.append([b"x"]), lambda: file.truncate(0), file.sync):
        assert "it is deleted" in str(refused(call))


def test_a_removed_file_is_never_synced(disk: Disk, subject: Subject) -> None:
    file, other = written(disk, "log"), written(disk, "other")
    disk.remove("log")
    assert "it is deleted" in str(refused(file.sync))
    assert "it is deleted" in str(refused(lambda: subject.outcome(other, file)))
    assert subject.outcome(other) is None


@pytest.mark.parametrize("remove", ["remove", "remove_soon", "remove_tree", "remove_tree_soon", "rename", "write_file"])
def test_a_name_that_was_given_away_opens_another_file(disk: Disk, remove: str) -> None:
    disk.make_dir("t-0")
    file = written(disk, "t-0/log")
    match remove:
        case "rename":
            written(disk, "t-0/new", b"new")
            disk.rename("t-0/new", "t-0/log")
        case "write_file":
            disk.write_file("t-0/log", b"new")
        case "remove" | "remove_soon":
            getattr(disk, remove)("t-0/log")
            written(disk, "t-0/log", b"new")
        case _:
            disk.rename("t-0", "t-0.gone")
            getattr(disk, remove)("t-0.gone")
            disk.make_dir("t-0")
            written(disk, "t-0/log", b"new")
    assert disk.open("t-0/log") is not file
    assert disk.open("t-0/log").read(0, 9) == b"new"
    file.close()
    assert "it is deleted" in str(refused(lambda: file.read(0, 9)))
    assert "it is deleted" in str(refused(file.sync))


def test_a_file_goes_by_the_name_that_it_was_given(disk: Disk) -> None:
    disk.make_dir("t-0")
    file = written(disk, "t-0/log")
    disk.rename("t-0", "t-0.gone")
    assert file.path == "t-0.gone/log"
    file.close()
    assert file.read(0, 9) == b"data"
    disk.rename("t-0.gone/log", "t-0.gone/log.deleted", sync=False)
    assert (file.path, disk.list("t-0.gone"), disk.exists("t-0")) == ("t-0.gone/log.deleted", ["log.deleted"], False)


# Names


def test_directories_are_made_with_their_parents_and_listed(disk: Disk) -> None:
    disk.make_dir("a/b/c")
    disk.make_dir("a/b")
    disk.make_dir("d")
    disk.make_dir("e")
    written(disk, "a/b/log")
    assert (disk.list(""), disk.list("a/b"), disk.list("none")) == (["a", "d", "e"], ["c", "log"], [])
    assert (disk.exists("a/b"), disk.exists("a/x")) == (True, False)
    disk.remove_tree("a")
    disk.remove_tree("none")
    assert disk.list("") == ["d", "e"]


def test_a_small_file_is_replaced_as_a_whole(disk: Disk) -> None:
    for sync in (True, False):
        disk.write_file("small", b"one", sync=sync)
        disk.write_file("small", b"2", sync=sync)
        assert (disk.read_file("small"), disk.list("")) == (b"2", ["small"])


@pytest.mark.parametrize(
    "call",
    [
        lambda disk: disk.open("none"),
        lambda disk: disk.open("none/log", create=True),
        lambda disk: disk.read_file("none"),
        lambda disk: disk.size("none"),
        lambda disk: disk.modified_ms("none"),
        lambda disk: disk.remove("none"),
        lambda disk: disk.rename("none", "some"),
        lambda disk: disk.rename("here", "none/here"),
        lambda disk: disk.write_file("none/small", b""),
        lambda disk: disk.sync_dir("none"),
        lambda disk: disk.sync_soon([disk.directory("none")], print),
    ],
)
def test_what_is_not_there_is_refused(disk: Disk, call: Callable[[Disk], object]) -> None:
    written(disk, "here")
    assert "No such file or directory" in str(refused(lambda: call(disk)))
    assert disk.list("") == ["here"]


def test_a_directory_is_no_file_and_a_file_no_directory(disk: Disk) -> None:
    disk.make_dir("t-0")
    disk.make_dir("t-1")
    written(disk, "t-0/log")
    for call in (
        lambda: disk.open("t-0"),
        lambda: disk.read_file("t-0"),
        lambda: disk.list("t-0/log"),
        lambda: disk.rename("t-1", "t-0"),
        lambda: disk.remove_tree("t-0/log"),
    ):
        refused(call)
    assert disk.read_file("t-0/log") == b"data"


# Syncs


def test_what_was_asked_for_before_a_removal_is_synced(disk: Disk, subject: Subject) -> None:
    disk.make_dir("t-0")
    files = [written(disk, f"t-0/{name}") for name in ("renamed", "removed", "replaced", "closed")]
    go_on = subject.asked(*files, disk.directory("t-0"))
    disk.rename("t-0/renamed", "t-0/other")
    disk.remove("t-0/removed")
    disk.write_file("t-0/replaced", b"new")
    for file in files:
        file.close()
    disk.rename("t-0", "t-0.gone")
    disk.remove_tree("t-0.gone")
    assert go_on() is None
    assert "it is deleted" in str(refused(lambda: subject.outcome(files[0])))


def test_one_sync_serves_those_who_asked_twice(disk: Disk, subject: Subject) -> None:
    file = written(disk, "log")
    assert subject.outcome(file, file, disk.directory(""), disk.directory("")) is None
    file.append([b"more"])
    assert subject.outcome(file) is None


class Alien:
    path = "alien"

    def sync(self) -> None: ...


def test_what_the_disk_did_not_give_out_is_no_success(disk: Disk, subject: Subject) -> None:
    file = written(disk, "log")
    with pytest.raises(TypeError, match="is not of this disk"):
        subject.outcome(file, Alien())
    assert subject.outcome(file) is None


@pytest.mark.parametrize("soon", [True, False])
@pytest.mark.parametrize("what", ["the file", "its name", "the name of its directory"])
def test_a_failed_sync_of_a_file_is_never_taken_back(disk: Disk, subject: Subject, what: str, soon: bool) -> None:
    disk.make_dir("t-0")
    file = written(disk, "t-0/log")
    failing = count_of_opens(subject) + ["the file", "its name", "the name of its directory"].index(what)
    subject.fail(failing, IO_ERROR)
    first = subject.outcome(file) if soon else refused(file.sync)
    assert first is not None
    assert IO_ERROR in str(first)
    file.append([b"more"])
    assert IO_ERROR in str(refused(file.sync))
    assert IO_ERROR in str(subject.outcome(file))
    assert file.read(0, 9) == b"datamore"


@pytest.mark.parametrize("soon", [True, False])
def test_a_failed_sync_of_a_directory_is_never_taken_back(disk: Disk, subject: Subject, soon: bool) -> None:
    """The system reports it once, and a second one would succeed without having written what the first had to."""
    disk.make_dir("t-0")
    old = written(disk, "t-0/old")
    assert subject.outcome(old) is None
    disk.rename("t-0/old", "t-0/other", sync=False)
    subject.fail(1, IO_ERROR)
    first = subject.outcome(disk.directory("t-0")) if soon else refused(lambda: disk.sync_dir("t-0"))
    assert isinstance(first, SyncFailed)
    assert IO_ERROR in str(refused(lambda: disk.sync_dir("t-0")))
    assert isinstance(subject.outcome(disk.directory("t-0")), SyncFailed)
    assert isinstance(refused(lambda: disk.write_file("t-0/small", b"1")), SyncFailed)
    new = written(disk, "t-0/new")
    assert isinstance(subject.outcome(new), SyncFailed), "its name can't be relied on"
    assert subject.outcome(old) is None, "its name was synced before"
    disk.make_dir("t-1")
    assert subject.outcome(written(disk, "t-1/log")) is None
    subject.kill()
    subject.disk.sync_dir("t-0")


def test_a_directory_that_takes_the_name_of_a_failed_one_begins_anew(disk: Disk, subject: Subject) -> None:
    disk.make_dir("t-0")
    disk.sync_dir("t-0")
    subject.fail(1, IO_ERROR)
    assert isinstance(refused(lambda: disk.sync_dir("t-0")), SyncFailed)
    disk.rename("t-0", "t-0.gone", sync=False)
    assert isinstance(refused(lambda: disk.sync_dir("t-0.gone")), SyncFailed)
    disk.remove_tree("t-0.gone")
    disk.make_dir("t-0")
    disk.sync_dir("t-0")


def test_a_sync_that_lacks_a_handle_is_no_failed_sync(disk: Disk, subject: Subject) -> None:
    disk.make_dir("t-0")
    file = written(disk, "t-0/log")
    for sync in (file.sync, lambda: disk.sync_dir("t-0"), lambda: subject.outcome(file)):
        subject.fail(0, TOO_MANY_FILES)
        assert isinstance(refused(sync), TryAgain)
    assert subject.outcome(file, disk.directory("t-0")) is None


def count_of_opens(subject: Subject) -> int:
    """How many calls come before the first sync of a new file in a new directory: the handles of both directories."""
    return 2 if isinstance(subject, Real) else 1


def test_names_that_could_not_be_synced_are_synced_with_the_next_file_or_never(subject: Subject) -> None:
    """Or a file that was acknowledged would be in a directory that a power cut takes."""
    for failing in range(12):
        disk, name = subject.disk, f"t-{failing}"
        disk.make_dir(name)
        file = written(disk, f"{name}/log")
        subject.fail(failing, IO_ERROR)
        done = outcome_or_refusal(subject, file if failing % 2 else disk.directory(name))
        subject.heal()
        if done is None:
            return
        next_done = outcome_or_refusal(subject, written(disk, f"{name}/next"))
        assert next_done is None or isinstance(next_done, SyncFailed)
        if next_done is not None:
            assert isinstance(outcome_or_refusal(subject, disk.directory(name)), SyncFailed)
            subject.kill()
            assert outcome_or_refusal(subject, written(subject.disk, f"{name}/another")) is None
        subject.assert_stable(f"{name}/next")
    raise AssertionError("a sync takes fewer than 12 calls")


def outcome_or_refusal(subject: Subject, file: Syncable) -> StorageFailed | None:
    try:
        return subject.outcome(file)
    except StorageFailed as failure:
        return failure


def test_names_that_a_killed_process_left_are_synced_with_what_its_successor_writes(subject: Subject) -> None:
    subject.disk.make_dir("a/t-0")
    written(subject.disk, "a/t-0/log")
    written(subject.disk, "a/t-0/other")
    subject.kill()
    file = subject.disk.open("a/t-0/log")
    file.append([b"more"])
    assert subject.outcome(file) is None
    subject.assert_stable("a/t-0/log")
    subject.assert_stable("a/t-0/other")


@pytest.mark.parametrize("what", ["file", "new file", "directory"])
def test_a_sync_for_which_there_is_no_handle_can_be_asked_for_again(disk: Disk, subject: Subject, what: str) -> None:
    disk.make_dir("t-0")
    files: list[File] = [written(disk, f"t-0/{number}") for number in range(3)]
    if what == "file":
        assert subject.outcome(*files) is None
    for file in files:
        file.append([b"more"])
    subject.close_handles()
    wanted: list[Syncable] = [disk.directory("t-0")] if what == "directory" else list(files)
    for after in range(3):
        subject.fail(after, TOO_MANY_FILES, count=1)
        with pytest.raises(TryAgain, match=TOO_MANY_FILES):
            subject.asked(*wanted)
        subject.heal()
        subject.close_handles()
        if what == "directory":
            break
    for file in files:
        assert not file.is_pinned, "nothing is held by a sync that did not begin"  # type: ignore[attr-defined]  # both have it
    assert subject.outcome(*wanted) is None
    assert subject.outcome(*files) is None


# Refusals


@pytest.mark.parametrize("reason", [IO_ERROR, NO_SPACE])
@pytest.mark.parametrize("after", range(4))
def test_a_refused_append_leaves_the_file_as_it_was(disk: Disk, subject: Subject, reason: str, after: int) -> None:
    file = written(disk, "log")
    subject.fail(after, reason)
    outcomes = []
    for number in range(4):
        try:
            outcomes.append(file.append([b"%d" % number]))
        except StorageFailed:
            assert file.size == 4 + len(outcomes)
    assert outcomes == [4, 5, 6]
    kept = "".join(str(number) for number in range(4) if number != after)
    assert file.read(0, 9) == b"data" + kept.encode()
    assert file.size == 7


@pytest.mark.parametrize("sync", [True, False])
@pytest.mark.parametrize("reason", [IO_ERROR, NO_SPACE, TOO_MANY_FILES])
def test_a_small_file_is_old_or_new_whichever_call_is_refused(subject: Subject, reason: str, sync: bool) -> None:
    for after in range(20):
        subject.kill()
        disk = subject.disk
        disk.write_file("small", b"old")
        subject.fail(after, reason)
        try:
            disk.write_file("small", b"new", sync=sync)
        except StorageFailed:
            subject.heal()
            assert disk.read_file("small") in (b"old", b"new")
            assert disk.list("") == ["small"]
        else:
            subject.heal()
            assert disk.read_file("small") == b"new"
            assert after
            return
    raise AssertionError("it takes fewer than 20 calls")


@pytest.mark.parametrize("reason", [IO_ERROR, NO_SPACE])
@pytest.mark.parametrize("operation", ["rename", "remove", "make_dir", "truncate", "reserve", "open", "read", "room"])
def test_what_is_refused_has_not_happened(disk: Disk, subject: Subject, operation: str, reason: str) -> None:
    file = written(disk, "log")
    calls: dict[str, Callable[[], object]] = {
        "rename": lambda: disk.rename("log", "other", sync=False),
        "remove": lambda: disk.remove("log"),
        "make_dir": lambda: disk.make_dir("t-0"),
        "truncate": lambda: file.truncate(0),
        "reserve": lambda: file.reserve(100),
        "open": lambda: disk.open("new", create=True),
        "read": lambda: file.read(0, 4),
        "room": disk.room,
    }
    subject.fail(0, reason, 2)
    assert reason in str(refused(calls[operation]))
    subject.heal()
    assert (disk.list(""), disk.size("log"), file.size, file.read(0, 9)) == (["log"], 4, 4, b"data")
    file.sync()
    calls[operation]()
