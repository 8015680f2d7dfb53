"""What a suite of somebody else's tests is to `make suites`: where its tests come from, and how one run of them ends.

Knows processes and folders; knows no client's own way of testing (`python.py`, `go.py`, `librdkafka.py`, `node.py`).
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Protocol

LIMIT_S = 1_800
"""How long one suite may take."""

Outcomes = dict[str, str]
"""Each test's outcome by name: "passed", "failed" or "skipped"."""


class NotHere(Exception):
    """A suite cannot be had here; the sentence says how it can."""


class Served(Protocol):
    """The brokers that a suite runs against."""

    @property
    def address(self) -> str: ...
    @property
    def log(self) -> str: ...


class Suite(Protocol):
    """One client's tests. `settings`, `port` (0: any) and `release` (None: all of them) are what they expect of the broker.

    Those that want several `brokers` get a cluster; with `ports`, clients reach its brokers at these, one each.
    """

    @property
    def name(self) -> str: ...
    @property
    def settings(self) -> Mapping[str, object]: ...
    @property
    def port(self) -> int: ...
    @property
    def release(self) -> str | None: ...
    @property
    def brokers(self) -> int: ...
    @property
    def ports(self) -> Sequence[int]: ...
    @property
    def version(self) -> str:
        """The release of the client whose tests these are."""

    def prepare(self, home: Path, checkout: Path | None) -> None:
        """Put the tests into `home`, ready to run: from their package, or from a checkout. Raises `NotHere`."""

    def run(self, home: Path, address: str, only: str) -> Outcomes:
        """Run those whose names match `only` (all, where it is empty) against the broker at `address`."""


def tool(name: str, remedy: str) -> str:
    """The path of a program. Raises `NotHere` with what to do about it."""
    found = shutil.which(name)
    if not found:
        raise NotHere(f"{name} is not installed: {remedy}.")
    return found


def is_free(port: int) -> bool:
    """Whether nothing listens on a port of this machine."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


def built(command: list[str], folder: Path, environment: Mapping[str, str] | None = None) -> None:
    """Run a step of a build. Raises `NotHere` with the end of what it said."""
    told = {**os.environ, **(environment or {})}
    done = subprocess.run(command, cwd=folder, env=told, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    if done.returncode:
        raise NotHere(f"`{' '.join(command)}` failed: {(done.stdout + done.stderr).strip()[-300:]}")


def unpack(archive: bytes, folder: str, home: Path) -> None:
    """The members of one folder of a tar archive, without the archive's own top folder where it has one."""
    with tarfile.open(fileobj=BytesIO(archive)) as tar:
        for member in tar.getmembers():
            parts = Path(member.name).parts
            if folder in parts[:2]:
                member.name = str(Path(*parts[parts.index(folder) :]))
                tar.extract(member, home, filter="data")


def adapt(folder: Path, pattern: str, changes: Mapping[str, str]) -> None:
    """Write regular expressions anew in all files of a folder that match a pattern: such as the number of brokers."""
    for path in folder.glob(pattern):
        text = path.read_text(encoding="utf-8")
        for was, becomes in changes.items():
            text = re.sub(was, becomes, text)
        path.write_text(text, encoding="utf-8")
