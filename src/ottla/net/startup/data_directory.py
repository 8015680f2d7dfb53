"""A broker's data directory: its owner, its lock, and whether the last shutdown was clean. It reads Kafka's `meta.properties`.

Every failure is a `DataDirectoryError` whose message is one sentence.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import NamedTuple
from zlib import crc32

from ottla.broker.membership.directory import BROKER_EPOCH, NEW
from ottla.cluster.layout import uuid_text
from ottla.log.checkpoints import CLEAN_SHUTDOWN, CLEAN_SHUTDOWN_CONTENT
from ottla.net.disk.reserve import Reserve, is_full
from ottla.registry.generations import DIRECTORIES

LOCK = ".lock"
META = "meta.properties"
OLD_REGISTRY = "registry.sqlite"
"""The registry's file in old versions of Ottla."""

BOOT = ".boot-id"
"""The file with the boot id under which all logs were last verified. It exists while the broker runs, and after a crash."""

VERSION = 1

OF_ZOOKEEPER = {"node.id": "broker.id"}
"""The names of properties in version 0 of `meta.properties`, the version of Kafka's brokers over ZooKeeper."""

_held: set[str] = set()
"""The directories that this process holds. A POSIX lock excludes other processes (Apache Kafka's too), but not this one."""

_claiming = threading.Lock()
"""The lock of `_held`, so that only one of two threads gets a directory."""

LOG_DIRS = ".log-dirs"
"""The file in the data directory that names the other directories with partitions: a line `directory.id path` for each."""

FIRST = "ottla.data.directory"
"""The property in `meta.properties` of an entry of `log.dirs` that names the data directory of its broker."""

_PARTITION = re.compile(r".+-\d+")

BOOT_ID = "/proc/sys/kernel/random/boot_id"


@cache
def boot_id() -> str:
    """Return an id that no other boot of any machine has, or "" if the operating system offers none.

    While it is unchanged, the page cache still contains the writes of a killed process.
    """
    try:
        return _read(BOOT_ID).decode().strip()
    except OSError:
        return ""


class DataDirectoryError(Exception):
    """The data directory cannot be used. The message says why and what to do."""


class DirectoryInUse(DataDirectoryError):
    """Another broker, or a command, holds the data directory."""


class HeldDirectory(NamedTuple):
    """A locked data directory: its real path, and the descriptor whose lock keeps other processes out."""

    held: str
    lock: int


class DataDirectory:
    """A data directory that this broker holds until `close` (after a clean shutdown) or `release` (otherwise).

    `cluster_id` and `directory_id` are created once and never change. `clean` is whether the last shutdown was clean. `was_killed`
    is whether the last process was killed without a reboot since, so that the page cache was not lost. On a full disk the `reserve`
    was released, so that there is room for the start.
    """

    def __init__(self, path: str, claim: HeldDirectory, reserve: Reserve, properties: dict[str, str], *, clean: bool) -> None:
        self.path = path
        self.reserve = reserve
        self.cluster_id = properties["cluster.id"]
        self.node_id = int(properties["node.id"])
        self.directory_id = properties["directory.id"]
        self.clean = clean
        self.was_killed = not clean and _ran_on(path)
        self.is_boot_noted = False
        self.log_dirs: list[str] = []
        self._claims = [claim]

    @classmethod
    def open(
        cls, path: str, *, node_id: int | None = None, cluster_id: str | None = None, is_shared: bool = False
    ) -> DataDirectory:
        """Lock the directory; create it if it does not exist.

        `node_id` and `cluster_id` must be the ones with which the directory was created. With `is_shared`, brokers share the
        registry, and `meta.properties` has the form of Kafka's brokers over ZooKeeper. Raises `DataDirectoryError` if another
        broker holds the directory, or if the directory is not writable, of a newer format, or another node's.
        """
        claim = _lock(path)
        try:
            reserve = Reserve(path)
            reserve.make_room()
            properties = _identify(path, node_id, cluster_id, is_shared=is_shared)
            clean = _write_marker(path)
            _keep_private(path)
        except OSError as error:
            _unlock(claim)
            raise _unusable(path, error) from error
        except BaseException:
            _unlock(claim)
            raise
        return cls(path, claim, reserve, properties, clean=clean)

    @property
    def absolute_path(self) -> str:
        return os.path.abspath(self.path)

    @property
    def all_paths(self) -> str:
        """Return the absolute paths of this directory and the others as a value of `log.dirs`."""
        return ",".join((self.absolute_path, *self.log_dirs))

    def open_log_dirs(self, paths: Sequence[str], *, is_shared: bool = False) -> None:
        """Lock the other directories of `log.dirs`; create those that do not exist. `log_dirs` are then their absolute paths.

        Each has the cluster and node id of this directory, and an id of its own (KIP-858). Raises `DataDirectoryError` also if a
        directory is missing that may hold partitions.
        """
        wanted = {os.path.realpath(path): os.path.abspath(path) for path in paths}
        wanted.pop(os.path.realpath(self.path), None)
        for path in wanted.values():
            self._claims.append(_lock(path))
        found = {path: read_properties(path) for path in wanted.values()}
        there = {known.get("directory.id") for known in found.values()}
        for directory_id, path in log_dirs_in(self.path).items():
            if directory_id not in there:
                raise DataDirectoryError(
                    f"The data directory {self.path} has partitions in {path}, which is not in log.dirs or not the same directory "
                    f"any more: name or mount it, or if it is lost, remove its line from {self.path}/{LOG_DIRS}."
                )
        try:
            ids = {self._identify_log_dir(path, known, is_shared=is_shared): path for path, known in found.items()}
            self._note_log_dirs(ids)
        except OSError as error:
            raise _unusable(", ".join(found), error) from error
        self.log_dirs = list(found)

    def _identify_log_dir(self, path: str, known: Mapping[str, str], *, is_shared: bool) -> str:
        """Check and write the `meta.properties` of another directory. Return its id."""
        if has_registry(path):
            raise DataDirectoryError(f"{path} in log.dirs has a registry of its own: name it with --data-dir, or choose another.")
        properties = _complete(known, self.cluster_id, self.node_id)
        for name, own in (("node.id", str(self.node_id)), ("cluster.id", self.cluster_id)):
            if properties[name] != own:
                raise DataDirectoryError(f"{path} in log.dirs belongs to {name} {properties[name]}, not {own}: choose another.")
        content = _encode(properties | {FIRST: self.absolute_path}, is_shared=is_shared)
        file = os.path.join(path, META)
        if not _exists(file) or _read(file) != content:
            _replace(file, content)
        return properties["directory.id"]

    def _note_log_dirs(self, ids: Mapping[str, str]) -> None:
        """Store which other directories may hold partitions."""
        content = "".join(f"{directory_id} {path}\n" for directory_id, path in ids.items())
        if log_dirs_in(self.path) != ids:
            _replace(os.path.join(self.path, LOG_DIRS), content.encode())

    def note_boot(self) -> None:
        """Store the machine's boot id, after all logs were verified. The file is not synced, because a power cut invalidates it."""
        self.is_boot_noted = True
        if boot_id() and not _ran_on(self.path):
            # Without the file, a kill counts as a power cut.
            with contextlib.suppress(OSError), open(os.path.join(self.path, BOOT), "w") as file:
                file.write(boot_id())

    def close(self) -> None:
        """Write the clean-shutdown marker, then release the directory. This must follow the close of every log.

        Of the other directories, only those with partitions must be there at the next start.
        """
        if self.log_dirs:
            with contextlib.suppress(OSError):
                self._note_log_dirs({one: path for one, path in log_dirs_in(self.path).items() if _may_hold_partitions(path)})
        with contextlib.suppress(OSError):  # without the marker the next start scans the logs, which is slower but as correct
            _replace(os.path.join(self.path, CLEAN_SHUTDOWN), CLEAN_SHUTDOWN_CONTENT)
        self.reserve.refill(self.reserve.wanted)
        self.release()

    def release(self) -> None:
        """Release the directory without the marker, so that the next start scans the logs."""
        claims, self._claims = self._claims, []
        for claim in claims:
            _unlock(claim)


def _keep_private(path: str) -> None:
    """Restrict access to the registry to the broker's own user. It contains credentials, and old versions let all users read it."""
    with contextlib.suppress(OSError):  # only the owner of another user's directory can restrict it
        for directory in (os.path.join(path, name) for name in DIRECTORIES):
            for name in os.listdir(directory) if _exists(directory) else ():
                os.chmod(os.path.join(directory, name), 0o600)
            if _exists(directory):
                os.chmod(directory, 0o700)


def was_killed(path: str) -> bool:
    """Return whether a data directory's last broker was killed, and the machine has not rebooted since."""
    return not _exists(os.path.join(path, CLEAN_SHUTDOWN)) and _ran_on(path)


def _ran_on(path: str) -> bool:
    """Return whether the machine has not rebooted since the logs in this directory were last verified."""
    with contextlib.suppress(OSError):
        noted = _read(os.path.join(path, BOOT)).decode(errors="replace").strip("\0")
        return bool(boot_id()) and noted == boot_id()
    return False


@contextlib.contextmanager
def lock(path: str) -> Iterator[dict[str, str]]:
    """Lock an existing data directory without a change, within this context manager. Yield its `meta.properties`.

    Raises `DataDirectoryError`.
    """
    meta = os.path.join(path, META)
    try:
        is_used = _exists(meta)
    except OSError as error:
        raise _unusable(path, error) from error
    if not is_used:
        raise DataDirectoryError(f"{path} has no {META}, so it is no data directory: name one that a broker has used.")
    claim = _lock(path)
    try:
        data = _read(meta)
        known = _parse(data.decode(errors="replace"))
        if not known:
            raise _unreadable(path)
        _check_version(path, known)
        _check_first(path, known)
        _check_sum(path, data)
        yield known
    except OSError as error:
        raise _unusable(path, error) from error
    finally:
        _unlock(claim)


def new_id() -> str:
    """Return a random id in Kafka's form: 16 bytes in URL-safe base64, without padding and without a leading "-"."""
    from ottla.broker.topics.topics import new_topic_id

    return uuid_text(new_topic_id(os.urandom))


def _lock(path: str) -> HeldDirectory:
    held = os.path.realpath(path)
    with _claiming:
        if held in _held:
            raise _in_use(path)
        _held.add(held)
    # Only after the check: closing any descriptor of the lock file would release this process's own lock on it.
    try:
        return HeldDirectory(held, _lock_directory(path))
    except BaseException:
        _held.discard(held)
        raise


def _lock_directory(path: str) -> int:
    """Lock a directory against other processes; create it if it does not exist. Return the lock's descriptor."""
    try:
        os.makedirs(path, exist_ok=True)
        lock = os.open(os.path.join(path, LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise _unusable(path, error) from error
    try:
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        raise _in_use(path) from error
    return lock


def _unlock(claim: HeldDirectory) -> None:
    os.close(claim.lock)  # closed first: the next `_lock` in this process must not find the descriptor open
    _held.discard(claim.held)


def _in_use(path: str) -> DirectoryInUse:
    return DirectoryInUse(f"The data directory {path} is in use by another broker: stop that broker, or choose another directory.")


def _unreadable(path: str) -> DataDirectoryError:
    return DataDirectoryError(f"{path}/{META} is missing or empty, although the directory has been used: restore the file.")


def _unusable(path: str, error: OSError) -> DataDirectoryError:
    if os.path.isfile(path):
        return DataDirectoryError(f"The data directory {path} cannot be used: it is a file; choose a directory.")
    if is_full(error):
        return DataDirectoryError(
            f"The data directory {path} cannot be used: the disk is full; make room there, or choose another."
        )
    reason = error.strerror or str(error)
    return DataDirectoryError(f"The data directory {path} cannot be used ({reason}): let this user write there, or choose another.")


def read_properties(path: str) -> dict[str, str]:
    """Return the `meta.properties` of a directory without locking it, or an empty dict if there are none.

    Raises `DataDirectoryError`.
    """
    try:
        known = _parse(_read(os.path.join(path, META)).decode(errors="replace"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise _unusable(path, error) from error
    _check_version(path, known)
    return known


def log_dirs_in(path: str) -> dict[str, str]:
    """Return directory.id -> path of the other directories with partitions of a data directory. Raises `DataDirectoryError`."""
    try:
        lines = _read(os.path.join(path, LOG_DIRS)).decode().splitlines()
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise DataDirectoryError(f"{path}/{LOG_DIRS} cannot be read ({error}): restore it.") from error
    return {directory_id: place for directory_id, _, place in (line.partition(" ") for line in lines)}


def _may_hold_partitions(path: str) -> bool:
    names = os.listdir(path)
    return META not in names or any(map(_PARTITION.match, names))


def has_registry(path: str) -> bool:
    """Return whether this directory contains the registry of a lone broker."""
    return any(_exists(os.path.join(path, name)) for name in (OLD_REGISTRY, *DIRECTORIES))


def node_id_in(known: Mapping[str, str]) -> int | None:
    """Return the node id in `meta.properties`, or None if it contains none."""
    text = known.get("node.id") or known.get("broker.id")
    return None if text is None else int(text)


def _identify(path: str, node_id: int | None, cluster_id: str | None, *, is_shared: bool) -> dict[str, str]:
    """Read `meta.properties`, or write it in a new directory. Add properties that an older version did not write."""
    file = os.path.join(path, META)
    data = _read(file) if _exists(file) else b""
    known = _parse(data.decode(errors="replace"))
    if not known and has_registry(path):
        raise _unreadable(path)
    _check_version(path, known)
    _check_first(path, known)
    _check_sum(path, data)
    if not is_shared and known.get("version") == "0" and has_registry(path):
        raise DataDirectoryError(
            f"The data directory {path} was last used in a cluster, of which its own registry has no record: "
            "start it with --registry."
        )
    properties = _complete(known, cluster_id, node_id)
    for name, wanted in (("node.id", node_id), ("cluster.id", cluster_id)):
        if wanted is not None and properties[name] != str(wanted):
            raise DataDirectoryError(
                f"The data directory {path} belongs to {name} {properties[name]}, not {wanted}: set that or choose another."
            )
    content = _encode(properties, is_shared=is_shared)
    if not known and is_shared:
        _replace(os.path.join(path, BROKER_EPOCH), NEW)  # written first: from now on, the directory is known to be without records
    if content != data:
        _replace(file, content)
    return properties


def _complete(known: Mapping[str, str], cluster_id: str | None = None, node_id: int | None = None) -> dict[str, str]:
    """Return all properties of a directory: the stored properties, then the given ids, then new values for missing properties."""
    return {
        "version": str(VERSION),
        "cluster.id": known.get("cluster.id") or cluster_id or new_id(),
        "node.id": known.get("node.id") or known.get("broker.id") or str(1 if node_id is None else node_id),
        "directory.id": known.get("directory.id") or new_id(),
    }


def make_lone(path: str, known: Mapping[str, str]) -> None:
    """Rewrite `meta.properties` for a lone broker. The caller holds the directory. Raises `DataDirectoryError`."""
    try:
        _replace(os.path.join(path, META), _encode(_complete(known), is_shared=False))
    except OSError as error:
        raise _unusable(path, error) from error


def _encode(properties: Mapping[str, str], *, is_shared: bool) -> bytes:
    """Return the contents of `meta.properties` with these properties."""
    said = {**properties, "version": "0"} if is_shared else properties
    lines = (f"{OF_ZOOKEEPER.get(name, name) if is_shared else name}={value}\n" for name, value in said.items())
    content = "".join(lines).encode()
    return content + _sum_line(content)


def _sum_line(content: bytes) -> bytes:
    """Return the last line of `meta.properties`, the checksum. Other readers of the file ignore the line as a comment."""
    return b"#crc32=%08x\n" % crc32(content)


def _check_sum(path: str, data: bytes) -> None:
    """Raise `DataDirectoryError` if the file was modified since it was written.

    A directory whose registry is not in `DIRECTORIES` has no checksum.
    """
    if not any(_exists(os.path.join(path, name)) for name in DIRECTORIES):
        return
    content = b"".join(line for line in data.splitlines(keepends=True) if not line.startswith(b"#crc32"))
    right = _sum_line(content)
    if data != content + right:
        raise DataDirectoryError(
            f"{path}/{META} was changed since it was written: restore it, or if its values are right, replace its last line with "
            f"{right.decode().strip()}"
        )


def _check_first(path: str, known: Mapping[str, str]) -> None:
    """Raise `DataDirectoryError` if a directory in `log.dirs` is itself used as a data directory."""
    if FIRST in known:
        raise DataDirectoryError(f"{path} is in the log.dirs of the data directory {known[FIRST]}: name that one.")


def _check_version(path: str, known: dict[str, str]) -> None:
    if not known:
        return
    version = known.get("version", "0")
    if not version.isdecimal() or not known.get("node.id", known.get("broker.id", "")).isdecimal():
        raise DataDirectoryError(f"{path}/{META} cannot be parsed: restore it, or choose another data directory.")
    if int(version) > VERSION:
        raise DataDirectoryError(
            f"{path}/{META} has format {version}, newer than {VERSION}: start the newer version that wrote it."
        )


def _parse(text: str) -> dict[str, str]:
    """Parse Java properties, but only the syntax that this file uses."""
    lines = (line.strip() for line in text.splitlines())
    pairs = (line.partition("=") for line in lines if line and not line.startswith(("#", "!")))
    return {name.strip(): value.strip() for name, _, value in pairs}


def _exists(file: str) -> bool:
    """Return whether a file exists. Raises OSError if that cannot be known."""
    try:
        os.stat(file)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def _read(file: str) -> bytes:
    with open(file, "rb") as stream:
        return stream.read()


def _write_marker(path: str) -> bool:
    try:
        os.unlink(os.path.join(path, CLEAN_SHUTDOWN))
    except FileNotFoundError:
        return False
    _sync_dir(path)
    return True


def _replace(file: str, data: bytes) -> None:
    temporary = f"{file}.tmp"
    with open(temporary, "wb") as stream:
        stream.write(data)
        stream.flush()
        os.fdatasync(stream.fileno())
    os.replace(temporary, file)
    _sync_dir(os.path.dirname(file) or os.curdir)


def _sync_dir(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
