"""Ways in which a disk, or somebody at it, damages a file: of one region, of a whole file, of a directory."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from tests.bitrot.regions import kind, regions

Bytes = Callable[[bytes, int, int], bytes]
"""(contents, position, size of the region) -> damaged contents"""


def _flipped(data: bytes, at: int, bit: int) -> bytes:
    return data[:at] + bytes([data[at] ^ bit]) + data[at + 1 :]


REGION_WAYS: Mapping[str, Bytes] = {
    "flip-low": lambda data, at, size: _flipped(data, at + size - 1, 0x01),
    "flip-high": lambda data, at, size: _flipped(data, at, 0x80),
    "flip-middle": lambda data, at, size: _flipped(data, at + size // 2, 0x04),
    "zeroed": lambda data, at, size: data[:at] + bytes(size) + data[at + size :],
    "doubled": lambda data, at, size: data[: at + size] + data[at : at + size] + data[at + size :],
    "cut-out": lambda data, at, size: data[:at] + data[at + size :],
    "truncated": lambda data, at, size: data[:at],
}
FILE_WAYS: Mapping[str, Callable[[bytes], bytes | None]] = {
    "removed": lambda data: None,
    "emptied": lambda data: b"",
    "zeroed": lambda data: bytes(len(data)),
    "ones": lambda data: b"\xff" * len(data),
    "doubled": lambda data: data + data,
    "longer": lambda data: data + bytes(64),
    "halved": lambda data: data[: len(data) // 2],
    "reversed": lambda data: data[::-1],
}
DIRECTORY_WAYS = ("removed", "emptied")
WHOLE = "whole"


class Case(NamedTuple):
    """One damage: `stop` is the template, `path` the file or directory in it."""

    stop: str
    path: str
    region: str
    way: str

    def __str__(self) -> str:
        return "/".join((self.stop, self.path, self.region, self.way))

    @property
    def kind(self) -> str:
        """The kind of file, as it stands in the table."""
        return kind(self.path)


def cases(stop: str, root: Path) -> Iterator[Case]:
    """Every case of one template that changes anything."""
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        if path.name == ".lock":
            continue
        if path.is_dir():
            yield from (Case(stop, name, WHOLE, way) for way in DIRECTORY_WAYS)
            continue
        data = path.read_bytes()
        yield from (Case(stop, name, WHOLE, way) for way, damage in FILE_WAYS.items() if damage(data) != data)
        for region in regions(name, data):
            for way, damaged in REGION_WAYS.items():
                if damaged(data, region.position, region.size) != data:
                    yield Case(stop, name, region.name, way)


def apply(case: Case, root: Path) -> None:
    """Damage a copy of the template."""
    path = root / case.path
    if path.is_dir():
        shutil.rmtree(path)
        if case.way == "emptied":
            path.mkdir()
        return
    data = path.read_bytes()
    if case.region == WHOLE:
        after = FILE_WAYS[case.way](data)
    else:
        region = next(one for one in regions(case.path, data) if one.name == case.region)
        after = REGION_WAYS[case.way](data, region.position, region.size)
    if after is None:
        path.unlink()
    else:
        path.write_bytes(after)


def copy(source: Path, target: Path) -> None:
    """Copy a small directory tree."""
    target.mkdir(parents=True)
    for entry in os.scandir(source):
        if entry.is_dir(follow_symlinks=False):
            copy(Path(entry.path), target / entry.name)
        else:
            (target / entry.name).write_bytes(Path(entry.path).read_bytes())
