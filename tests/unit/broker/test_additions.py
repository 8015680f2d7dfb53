"""What CONTRIBUTING.md says of additions is true: each toy here is a new thing of its kind, and touches no file of the project."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest

from ottla.broker.settings import Setting, TopicSettings
from ottla.broker.settings.kinds import INT, at_least
from ottla.ports import Buffer, Disk, Done, File, Pauses, StorageFailed, Syncable
from ottla.records.batches.builder import build
from ottla.records.batches.header import MAGIC_POSITION, read_header
from ottla.records.message_sets.up_conversion import FORMATS, Arrived, Terms
from ottla.wire.api.create_topics import CreateTopicsRequest
from ottla.wire.api.describe_configs import DescribeConfigsRequest
from ottla.wire.errors import INVALID_CONFIG, NONE
from tests.support.machine import Machine
from tests.support.producing import PRODUCE, create, produce, request, values
from tools.settings_page import page

CREATE_TOPICS, DESCRIBE_CONFIGS, TOPIC = 19, 32, 2


class Names:
    """The names in a directory of a `DictDisk`: nothing is ever lost, so nothing is to be synced."""

    def __init__(self, path: str) -> None:
        self.path = path

    def sync(self) -> None:
        pass


class DictFile(Names):
    """A file as a bytearray."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.data = bytearray()
        self.rewrites = 0
        self.has_name = True

    @property
    def size(self) -> int:
        return len(self.data)

    def append(self, buffers: Sequence[Buffer]) -> int:
        start = len(self.data)
        self.data += b"".join(buffers)
        return start

    def read(self, position: int, size: int) -> bytes:
        return bytes(self.data[position : position + size])

    def write(self, position: int, data: Buffer) -> None:
        self.rewrites += 1
        self.data[position : position + len(data)] = data

    def truncate(self, size: int) -> None:
        self.rewrites += 1
        del self.data[size:]

    def reserve(self, size: int) -> None:
        pass

    def close(self) -> None:
        pass


class DictRoom:
    """A room of a `DictDisk`."""

    alignment = 512
    is_direct = False

    def __init__(self, file: DictFile, size: int, done: list[Done]) -> None:
        self.path = file.path
        self.size = size
        self._file = file
        self._done = done

    def write_soon(self, position: int, buffers: Sequence[Buffer], done: Done) -> None:
        self._file.write(position, b"".join(buffers))
        self._done.append(done)

    def close(self) -> None:
        pass


class DictDisk:
    """A storage backend: files by their paths, and nothing else."""

    def __init__(self) -> None:
        self.files: dict[str, DictFile] = {}
        self.dirs = {""}
        self._done: list[Done] = []

    def open(self, path: str, *, create: bool = False) -> File:
        return self._new(path) if create and path not in self.files else self._find(path)

    def put(self, name: str, directory: str) -> None:
        raise AssertionError("there is one directory")

    def exchange(self, name: str, copy: str) -> None:
        raise AssertionError("there is one directory")

    def _new(self, path: str) -> DictFile:
        self.files[path] = DictFile(path)
        return self.files[path]

    def _find(self, path: str) -> DictFile:
        if path not in self.files:
            raise StorageFailed(path, "No such file or directory")
        return self.files[path]

    def exists(self, path: str) -> bool:
        return path in self.files or path in self.dirs

    def list(self, path: str) -> list[str]:
        start = f"{path}/" if path else ""
        return sorted({name[len(start) :].split("/")[0] for name in (*self.files, *self.dirs - {""}) if name.startswith(start)})

    def size(self, path: str) -> int:
        return self._find(path).size

    def modified_ms(self, path: str) -> int:
        return 0

    def make_dir(self, path: str) -> None:
        self.dirs.add(path)

    def rename(self, path: str, to: str, *, sync: bool = True) -> None:
        for name in [name for name in self.files if name == path or name.startswith(f"{path}/")]:
            file = self.files.pop(name)
            file.path = to + name[len(path) :]
            self.files[file.path] = file
        if path in self.dirs:
            self.dirs ^= {path, to}

    def remove(self, path: str) -> None:
        self._find(path)
        del self.files[path]

    remove_soon = remove

    def remove_tree(self, path: str) -> None:
        self.dirs.discard(path)
        self.files = {name: file for name, file in self.files.items() if not name.startswith(f"{path}/")}

    remove_tree_soon = remove_tree

    def read_file(self, path: str) -> bytes:
        return bytes(self._find(path).data)

    def write_file(self, path: str, data: Buffer, *, sync: bool = True) -> None:
        self._new(path).append([data])

    def sync_dir(self, path: str) -> None:
        pass

    def directory(self, path: str) -> Syncable:
        return Names(path)

    def room(self, path: str = "") -> tuple[int, int]:
        return 1 << 40, 1 << 40

    def sync_soon(self, files: Iterable[Syncable], done: Done) -> None:
        self._done.append(done)

    def make_room(self, path: str, size: int, done: Done) -> DictRoom:
        file = self.files.get(path) or self._new(path)
        file.data = file.data.ljust(size, b"\0")
        self._done.append(done)
        return DictRoom(file, size, self._done)

    def run_syncs(self) -> int:
        """Tell everybody who waits; how many they were."""
        waiting, self._done = self._done, []
        for done in waiting:
            done(None)
        return len(waiting)

    def kill(self) -> None:
        self._done.clear()


def test_a_storage_backend_is_a_class(monkeypatch: pytest.MonkeyPatch) -> None:
    disk: Disk = DictDisk()
    monkeypatch.setattr("tests.support.machine.SimDisk", lambda: disk)
    machine = Machine()
    create(machine, "t")
    produce(machine, b"one", b"two")
    machine.restart()
    produce(machine, b"three")
    machine.kill()
    assert values(machine) == [b"one", b"two", b"three"]


MAGIC_OF_LINES = 9


def lines(view: memoryview, terms: Terms) -> Pauses[Arrived]:
    """A toy record format: what stands after the magic is text, and each of its lines is a record."""
    batch = bytearray(build(None, bytes(view[MAGIC_POSITION + 1 :]).split(b"\n"), terms.now_ms))
    yield
    return Arrived(NONE, view=batch, headers=(read_header(batch),))


def test_a_record_format_is_a_way_to_make_batches_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FORMATS, MAGIC_OF_LINES, lines)
    machine = Machine()
    create(machine, "t")
    sent = bytes(MAGIC_POSITION) + bytes((MAGIC_OF_LINES,)) + b"one\ntwo"
    response = machine.ask(PRODUCE, 2, request(sent))
    assert response.responses[0].partition_responses[0].error_code == NONE
    assert values(machine) == [b"one", b"two"]


@pytest.fixture
def toy_setting(monkeypatch: pytest.MonkeyPatch) -> str:
    """What one more line in `TopicSettings` would declare."""

    class Toy(TopicSettings):
        ottla_toy_things = Setting(INT, 3, "How many toys a topic has.", check=at_least(0))

    monkeypatch.setattr(TopicSettings, "DECLARED", Toy.DECLARED)
    return "ottla.toy.things"


def test_a_topic_setting_is_a_declaration(toy_setting: str) -> None:
    machine = Machine()
    create(machine, "t", **{toy_setting: 7})
    create(machine, "untouched")
    assert (described(machine, "t", toy_setting), described(machine, "untouched", toy_setting)) == ("7", "3")
    config = CreateTopicsRequest.CreatableTopicConfig(name=toy_setting, value="-1")
    topic = CreateTopicsRequest.CreatableTopic(name="refused", num_partitions=1, replication_factor=1, configs=[config])
    assert machine.ask(CREATE_TOPICS, 7, CreateTopicsRequest(topics=[topic])).topics[0].error_code == INVALID_CONFIG
    assert "How many toys a topic has." in page()


def described(machine: Machine, topic: str, name: str) -> str | None:
    resource = DescribeConfigsRequest.DescribeConfigsResource(resource_type=TOPIC, resource_name=topic, configuration_keys=None)
    (result,) = machine.ask(DESCRIBE_CONFIGS, 4, DescribeConfigsRequest(resources=[resource])).results
    found: dict[str, str | None] = {config.name: config.value for config in result.configs}
    return found[name]
