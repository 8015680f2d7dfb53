"""`make suites`: the tests about groups of kafka-python and aiokafka, against a broker of ours: `python -m tests.suites.run`.

Their tests come from the source archive of the release that is installed, as its index has it (kafka-python), or from a checkout
(`--checkout PATH`, also of a bare repository): nothing of them is kept here. `<suite>.txt` lists which of them pass, and the cause
why the others do not; one that passed once must go on passing. `--write` adds those that newly pass. `--peer apache-kafka` shows
which of them a real Apache Kafka passes.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from importlib.metadata import version
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

from tests.suites.lists import Listed, read, write
from tests.support.peers import start_peer

HERE = Path(__file__).parent
LIMIT_S = 1_800


class Suite(NamedTuple):
    """A client's tests: the folder in which they are, those of them that concern groups, what they need to be told, and the
    settings of the broker that they would have started themselves."""

    name: str
    folder: str
    wanted: tuple[str, ...]
    arguments: tuple[str, ...]
    environment: dict[str, str]
    settings: dict[str, object]


class NotHere(Exception):
    """A suite cannot be had; the sentence says how it can."""


SUITES = {
    suite.name: suite
    for suite in (
        Suite(
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
        ),
        Suite(
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
        ),
    )
}


def tests_of(suite: Suite, checkout: Path | None, home: Path) -> None:
    """Put the suite's folder of tests into `home`, alone: beside its package they would test that one. Raises `NotHere`."""
    if checkout is None:
        _unpack(_source_archive(suite, home), suite.folder, home)
    elif (checkout / suite.folder).is_dir():
        shutil.copytree(checkout / suite.folder, home / suite.folder)
    else:
        _from_repository(suite, checkout, home)
    if not (home / suite.folder).is_dir():
        sentence = f"the source archive of {suite.name} {version(suite.name)} has no tests"
        raise NotHere(f"{sentence}: check out its repository at that release, and give --checkout PATH.")
    (home / suite.folder / "__init__.py").touch()  # archives leave it out, and the standard library has a package of that name


def _source_archive(suite: Suite, home: Path) -> bytes:
    pinned = f"{suite.name}=={version(suite.name)}"
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-build-isolation", "--no-binary", ":all:"]
    done = subprocess.run([*command, "--dest", str(home / "sdist"), pinned], capture_output=True, text=True, check=False)
    found = list((home / "sdist").glob("*.tar.gz"))
    if not found:
        raise NotHere(f"{pinned} could not be downloaded ({done.stderr.strip()[-200:]}): give --checkout PATH.")
    return found[0].read_bytes()


def _unpack(archive: bytes, folder: str, home: Path) -> None:
    """The members of one folder, without the archive's own top folder where it has one."""
    with tarfile.open(fileobj=BytesIO(archive)) as tar:
        for member in tar.getmembers():
            parts = Path(member.name).parts
            if folder in parts[:2]:
                member.name = str(Path(*parts[parts.index(folder) :]))
                tar.extract(member, home, filter="data")


def _from_repository(suite: Suite, repository: Path, home: Path) -> None:
    """From a repository without a work tree: the release that is installed, or what it has newest."""
    for revision in (f"v{version(suite.name)}", version(suite.name), "HEAD"):
        command = ["git", "-C", str(repository), "archive", "--format=tar", revision, suite.folder]
        done = subprocess.run(command, capture_output=True, check=False)
        if done.returncode == 0:
            _unpack(done.stdout, suite.folder, home)
            return
    raise NotHere(f"{repository} has no folder {suite.folder} and is no repository that has: {done.stderr.decode().strip()[-200:]}")


def outcomes(suite: Suite, home: Path, address: str, only: str) -> dict[str, str]:
    """Run the tests in `home`: each one's outcome by name."""
    told = home / "outcomes"
    told.touch()
    command = [sys.executable, "-m", "pytest", "-p", "suite_broker", "-p", "no:randomly", "-p", "no:cacheprovider", "-q"]
    command += ["-c", str(home / "pytest.ini"), "--rootdir", str(home), "--tb=short", *suite.arguments, *suite.wanted]
    (home / "pytest.ini").write_text("[pytest]\n")
    environment = {**os.environ, **suite.environment, "SUITE_BROKER": address, "SUITE_OUTCOMES": str(told)}
    environment["PYTHONPATH"] = os.pathsep.join([str(HERE), str(home), environment.get("PYTHONPATH", "")])
    subprocess.run([*command, *(("-k", only) if only else ())], cwd=home, env=environment, timeout=LIMIT_S, check=False)
    found: dict[str, str] = {}
    for line in told.read_text(encoding="utf-8").splitlines():
        name, outcome, _ = json.loads(line)
        found[name] = outcome if found.get(name) != "failed" else "failed"
    return found


def judge(name: str, listed: Listed, found: dict[str, str], *, all_of_them: bool) -> list[str]:
    """What is worse than the list says; prints what is better."""
    worse = [f"{test} passed before and has {found[test]}" for test in listed.passing if found.get(test, "passed") == "failed"]
    worse += [f"{test} passed before and was not run" for test in listed.passing if all_of_them and test not in found]
    worse += [f"{test} has failed, without a cause" for test, got in found.items() if got == "failed" and test not in listed.known]
    for test, got in found.items():
        if got == "passed" and test not in listed.passing:
            print(f"{name}: {test} passes and is not listed: --write")
    return worse


def run(suite: Suite, wanted: argparse.Namespace) -> list[str]:
    path = HERE / f"{suite.name}.txt"
    with tempfile.TemporaryDirectory(prefix="ottla-suites-") as home:
        tests_of(suite, wanted.checkout, Path(home))
        with start_peer(wanted.peer, Path(home), suite.settings) as broker:
            found = outcomes(suite, Path(home), broker.address, wanted.k)
    listed = read(path)
    counts = {kind: list(found.values()).count(kind) for kind in ("passed", "failed", "skipped")}
    print(f"{suite.name} {version(suite.name)}: " + ", ".join(f"{count} {kind}" for kind, count in counts.items()))
    if wanted.write:
        listed = write(path, listed, [test for test, got in found.items() if got == "passed"])
    return judge(suite.name, listed, found, all_of_them=not wanted.k)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.suites.run", description=__doc__)
    parser.add_argument("suite", nargs="*", choices=[*SUITES, []], help="which (default: all that can be had)")
    parser.add_argument("--checkout", type=Path, help="where the suite's repository is")
    parser.add_argument("--peer", default="ottla", choices=["ottla", "apache-kafka"], help="the broker that they run against")
    parser.add_argument("-k", default="", help="only tests whose names match, as pytest's -k")
    parser.add_argument("--write", action="store_true", help="add what newly passes to the list")
    wanted = parser.parse_args()
    worse: list[str] = []
    for name in wanted.suite or SUITES:
        try:
            worse += run(SUITES[name], wanted)
        except NotHere as missing:
            print(f"{name} is left out: {missing}")
            worse += [str(missing)] if wanted.suite else []
    for line in worse:
        print(line)
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
