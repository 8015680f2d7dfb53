"""Brokers to test against; `--peer=apache-kafka` shows on a real Apache Kafka that what a test expects is Kafka's."""

from __future__ import annotations

import gc
import itertools
import logging
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import hypothesis
import pytest

from bench.apache_kafka import VERSION
from ottla.net.startup.log_output import Limiter
from tests.support import elsewhere, shares
from tests.support.elsewhere import OTTLA, PEERS
from tests.support.peers import Peer, start_peer
from tests.support.watched import Watch, unexpected

# How long an example takes says how busy the machine is.
hypothesis.settings.register_profile("ottla", deadline=None)
hypothesis.settings.load_profile("ottla")

watch = Watch()
watch.install()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--peer", default=OTTLA, choices=PEERS, help="the broker that tests of interop and of clients run against")
    parser.addoption("--kafka-release", help="the Apache Kafka that shares a cluster with Ottla")
    parser.addoption(
        "--tools", default=VERSION, choices=[VERSION, "3.9.1"], help="the release of Apache Kafka's tools that tests run"
    )
    parser.addoption(
        "--java-programs",
        action="store_true",
        help="run Kafka Streams, Connect and MirrorMaker on clusters whose brokers are killed: minutes",
    )
    parser.addoption("--rewrite-scenarios", action="store_true", help="write plays as they end, instead of comparing")
    parser.addoption("--share", type=shares.parse, help="3/8: the third of eight shares of the tests marked `full`, and no others")
    parser.addoption("--until", type=float, help="a time as of time.time: no test begins that would take longer")


def pytest_collection_finish() -> None:
    """Spare every collection of garbage from now on what the tests are made of."""
    gc.collect()
    gc.freeze()


MARKS: dict[str, list[pytest.MarkDecorator]] = {
    "tests/cluster/": [pytest.mark.cluster],
    "tests/interop/": [pytest.mark.interop],
    "tests/sim/": [pytest.mark.sim, pytest.mark.expects_errors(".")],  # a life has faults of its own, and judges what came of them
    "tests/spark/": [
        pytest.mark.spark,
        pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
    ],
}
"""What marks all tests of a folder."""


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None]:
    select(config, items)
    yield
    shares.begin_long_files(items)


def select(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark tests by their folders, and leave out those of other shares and peers."""
    for item in items:
        for mark in next((marks for folder, marks in MARKS.items() if item.nodeid.startswith(folder)), ()):
            item.add_marker(mark)
    shares.thin_out(items)
    if (peer := config.getoption("--peer")) != OTTLA:
        elsewhere.select(config, items, peer)
    if share := config.getoption("--share"):
        items[:], others = shares.chosen(items, share)
        config.hook.pytest_deselected(items=others)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    shares.skip_without_time(item, item.config.getoption("--until"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    elsewhere.skip_refused(report, call, item.config.getoption("--peer"))
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if share := config.getoption("--share"):
        skipped = [str(report.longrepr) for report in terminalreporter.stats.get("skipped", ())]
        left_out = sum(shares.OUT_OF_TIME in reason for reason in skipped)
        ran = len(skipped) - left_out + sum(len(terminalreporter.stats.get(kind, ())) for kind in ("passed", "failed", "error"))
        terminalreporter.write_line(shares.said(share, ran, left_out), bold=True)


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    """Take back what a test had `ottla serve` set up in this process: its handler writes to a stream that is closed afterwards."""
    ottla = logging.getLogger("ottla")
    handlers, level, propagates = ottla.handlers[:], ottla.level, ottla.propagate
    yield
    ottla.handlers[:], ottla.propagate = handlers, propagates
    ottla.setLevel(level)


@pytest.fixture(autouse=True)
def _no_unexpected_errors(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail the test with which a broker's log speaks of an error, or shows a traceback, that the test does not expect."""
    expected = [str(pattern) for mark in request.node.iter_markers("expects_errors") for pattern in mark.args]
    list(watch.errors())
    for limiter in logging.getLogger("ottla.broker").filters:
        if isinstance(limiter, Limiter):
            limiter.forget()  # or a line that the test before logged a moment ago would be left out of this one's
    yield
    found = unexpected(watch.errors(), expected)
    assert not found, "a broker met errors that this test does not expect:\n" + "\n".join(found)


@pytest.fixture(scope="session")
def peer_name(request: pytest.FixtureRequest) -> str:
    name = request.config.getoption("--peer")
    assert isinstance(name, str)
    return name


@pytest.fixture(scope="session")
def broker(peer_name: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    """One broker for all tests of the session: each uses topics and groups of its own, and none restarts it."""
    with start_peer(peer_name, tmp_path_factory.mktemp("broker")) as peer:
        yield peer


@pytest.fixture
def own_broker(peer_name: str, tmp_path: Path) -> Iterator[Peer]:
    """A broker of the test's own, to restart, kill and mistreat."""
    with start_peer(peer_name, tmp_path) as peer:
        yield peer


@pytest.fixture(scope="session")
def _numbers() -> Iterator[int]:
    return itertools.count(1)


@pytest.fixture
def unique(request: pytest.FixtureRequest, _numbers: Iterator[int]) -> Callable[[str], str]:
    """Names for topics and groups that no other test uses."""
    return lambda stem: f"{stem}-{next(_numbers)}"
