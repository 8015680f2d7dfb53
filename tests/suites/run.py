"""`make suites`: tests that other clients have of themselves, against a broker of ours: `python -m tests.suites.run [SUITE ...]`.

Nothing of them is kept here: they come from the package index of their language, or from a checkout (`--checkout PATH`, also of a
bare repository). `<suite>.txt` lists which of them pass, and the cause why the others do not; one that passed once must go on
passing. `--write` adds those that newly pass. `--peer apache-kafka` shows which of them a real Apache Kafka passes.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from contextlib import AbstractContextManager
from pathlib import Path

from bench.apache_kafka import ApacheKafka, Unavailable
from ottla.testing import BrokerProcess
from tests.suites.brokers import SuiteCluster
from tests.suites.go import FRANZ_GO, FRANZ_GO_CLUSTER, KAFKA_GO, SARAMA, SARAMA_CLUSTER
from tests.suites.librdkafka import LIBRDKAFKA, LIBRDKAFKA_CLUSTER
from tests.suites.lists import Listed, read, write
from tests.suites.node import NODE_RDKAFKA
from tests.suites.python import AIOKAFKA, KAFKA_PYTHON
from tests.suites.suite import NotHere, Served, Suite, is_free

HERE = Path(__file__).parent
ALONE: tuple[Suite, ...] = (KAFKA_PYTHON, AIOKAFKA, FRANZ_GO, KAFKA_GO, SARAMA, LIBRDKAFKA, NODE_RDKAFKA)
CLUSTERS: tuple[Suite, ...] = (FRANZ_GO_CLUSTER, SARAMA_CLUSTER, LIBRDKAFKA_CLUSTER)
ALL = (*ALONE, *CLUSTERS)
SUITES = {suite.name: suite for suite in ALL}


def judge(name: str, listed: Listed, found: dict[str, str], *, all_of_them: bool) -> list[str]:
    """What is worse than the list says; prints what is better."""
    worse = [f"{test} passed before and has {found[test]}" for test in listed.passing if found.get(test, "passed") == "failed"]
    worse += [f"{test} passed before and was not run" for test in listed.passing if all_of_them and test not in found]
    worse += [f"{test} has failed, without a cause" for test, got in found.items() if got == "failed" and test not in listed.known]
    for test, got in found.items():
        if got == "passed" and test not in listed.passing:
            print(f"{name}: {test} passes and is not listed: --write")
    return [f"{name}: {line}" for line in worse]


def started(suite: Suite, peer: str, home: Path) -> AbstractContextManager[Served]:
    """The broker, or brokers, that a suite's clients expect, on the port that they expect it on. Raises `NotHere`."""
    if suite.port and not is_free(suite.port):
        raise NotHere(f"its tests reach the broker at port {suite.port}, which is in use: stop what uses it.")
    if suite.brokers > 1:
        if peer != "ottla":
            raise NotHere("its brokers are a cluster, which is only started of ours.")
        return SuiteCluster(suite, home)
    if peer == "ottla":
        return BrokerProcess(home / "data", suite.settings, port=suite.port, release=suite.release)
    try:
        kafka = ApacheKafka(home / "kafka", suite.settings)
    except Unavailable as missing:
        raise NotHere(f"there is no Apache Kafka: {missing}.") from missing
    kafka.port = suite.port or kafka.port
    return kafka


def run(suite: Suite, wanted: argparse.Namespace) -> list[str]:
    path = HERE / f"{suite.name}.txt"
    with tempfile.TemporaryDirectory(prefix="ottla-suites-") as home:
        suite.prepare(Path(home), wanted.checkout)
        with started(suite, wanted.peer, Path(home)) as broker:
            found = suite.run(Path(home), broker.address, wanted.k)
            complaints = [line for line in broker.log.splitlines() if " ERROR " in line or line.startswith("Traceback")]
    listed = read(path)
    counts = {kind: list(found.values()).count(kind) for kind in ("passed", "failed", "skipped")}
    print(f"{suite.name} {suite.version}: " + ", ".join(f"{count} {kind}" for kind, count in counts.items()), flush=True)
    if wanted.write:
        listed = write(path, listed, [test for test, got in found.items() if got == "passed"])
    worse = judge(suite.name, listed, found, all_of_them=not wanted.k)
    return worse + ([f"{suite.name}: the broker says: {line}" for line in complaints] if wanted.peer == "ottla" else [])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.suites.run", description=__doc__)
    parser.add_argument("suite", nargs="*", choices=[*SUITES, []], help="which (default: all that can be had)")
    parser.add_argument("--checkout", type=Path, help="where the suite's repository is")
    parser.add_argument("--peer", default="ottla", choices=["ottla", "apache-kafka"], help="the broker that they run against")
    parser.add_argument("-k", default="", help="only tests whose names match, as the suite's own runner matches them")
    parser.add_argument("--write", action="store_true", help="add what newly passes to the list")
    parser.add_argument(
        "--where-possible", action="store_true", help="leave out what cannot be had here, instead of failing for it"
    )
    wanted = parser.parse_args()
    worse: list[str] = []
    for name in wanted.suite or SUITES:
        try:
            worse += run(SUITES[name], wanted)
        except NotHere as missing:
            print(f"{name} is left out: {missing}", flush=True)
            worse += [str(missing)] if wanted.suite and not wanted.where_possible else []
    for line in worse:
        print(line)
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
