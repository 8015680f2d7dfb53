"""Suites that run under pytest: those of kafka-python and aiokafka, of the release that is installed.

Their tests come from the source archive, or from a checkout where that has none. `suite_broker.py` answers for their fixtures.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from tests.suites.suite import LIMIT_S, NotHere, Outcomes, unpack

HERE = Path(__file__).parent


class PytestSuite(NamedTuple):
    """`folder` is where its tests are, `wanted` are those of them that concern what is served."""

    name: str
    folder: str
    wanted: tuple[str, ...]
    arguments: tuple[str, ...]
    environment: dict[str, str]
    settings: dict[str, object]
    port: int = 0
    release: str | None = None
    brokers: int = 1
    ports: Sequence[int] = ()

    @property
    def version(self) -> str:
        return version(self.name)

    def prepare(self, home: Path, checkout: Path | None) -> None:
        """The folder of tests comes alone: beside its package they would test that one."""
        if checkout is None:
            unpack(self._source_archive(home), self.folder, home)
        elif (checkout / self.folder).is_dir():
            shutil.copytree(checkout / self.folder, home / self.folder)
        else:
            self._from_repository(checkout, home)
        if not (home / self.folder).is_dir():
            sentence = f"the source archive of {self.name} {self.version} has no tests"
            raise NotHere(f"{sentence}: check out its repository at that release, and give --checkout PATH.")
        (home / self.folder / "__init__.py").touch()  # archives leave it out, and the standard library has a package of that name

    def run(self, home: Path, address: str, only: str) -> Outcomes:
        told = home / "outcomes"
        told.touch()
        command = [sys.executable, "-m", "pytest", "-p", "suite_broker", "-p", "no:randomly", "-p", "no:cacheprovider", "-q"]
        command += ["-c", str(home / "pytest.ini"), "--rootdir", str(home), "--tb=short", *self.arguments, *self.wanted]
        (home / "pytest.ini").write_text("[pytest]\n")
        environment = {**os.environ, **self.environment, "SUITE_BROKER": address, "SUITE_OUTCOMES": str(told)}
        environment["PYTHONPATH"] = os.pathsep.join([str(HERE), str(home), environment.get("PYTHONPATH", "")])
        subprocess.run([*command, *(("-k", only) if only else ())], cwd=home, env=environment, timeout=LIMIT_S, check=False)
        found: Outcomes = {}
        for line in told.read_text(encoding="utf-8").splitlines():
            name, outcome, _ = json.loads(line)
            found[name] = outcome if found.get(name) != "failed" else "failed"
        return found

    def _source_archive(self, home: Path) -> bytes:
        pinned = f"{self.name}=={self.version}"
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-build-isolation", "--no-binary", ":all:"]
        done = subprocess.run([*command, "--dest", str(home / "sdist"), pinned], capture_output=True, text=True, check=False)
        found = list((home / "sdist").glob("*.tar.gz"))
        if not found:
            raise NotHere(f"{pinned} could not be downloaded ({done.stderr.strip()[-200:]}): give --checkout PATH.")
        return found[0].read_bytes()

    def _from_repository(self, repository: Path, home: Path) -> None:
        """From a repository without a work tree: the release that is installed, or what it has newest."""
        said = ""
        for revision in (f"v{self.version}", self.version, "HEAD"):
            command = ["git", "-C", str(repository), "archive", "--format=tar", revision, self.folder]
            done = subprocess.run(command, capture_output=True, check=False)
            if done.returncode == 0:
                unpack(done.stdout, self.folder, home)
                return
            said = done.stderr.decode().strip()[-200:]
        raise NotHere(f"{repository} has no folder {self.folder} and is no repository that has: {said}")


KAFKA_PYTHON = PytestSuite(
    "kafka-python",
    "test",
    (
        "test/integration/test_consumer_integration.py",
        "test/integration/test_admin_integration.py::test_describe_group_exists",
        "test/integration/test_admin_integration.py::test_delete_groups",
        "test/integration/test_admin_integration.py::test_delete_groups_with_errors",
        "test/integration/test_producer_integration.py::test_transactional_producer_offsets",
    ),
    ("--timeout=120",),
    {"KAFKA_VERSION": "4.3.0", "KAFKA_ROOT": "."},
    {"num.partitions": 4, "group.initial.rebalance.delay.ms": 0, "group.min.session.timeout.ms": 1000},
)

AIOKAFKA = PytestSuite(
    "aiokafka",
    "tests",
    (
        "tests/test_consumer.py",
        "tests/test_coordinator.py",
        "tests/test_pep492.py",
        "tests/test_admin.py",
        "tests/test_transactional_consumer.py",
        "tests/test_transactional_producer.py",
    ),
    ("--docker-image=any/kafka:2.13_4.3.0", "--timeout=180"),
    {},
    {"num.partitions": 2, "group.initial.rebalance.delay.ms": 0},
)
