"""The tests of Ottla's clients on other brokers: `make clients-elsewhere`, which calls pytest with `--peer=kafka-2.8` and the like.

A test that needs more than a release has is skipped, with a reason: the mark `since("0.11", "headers")` names the release, or the
client refuses a call with a sentence that names it. The sentence must name a newer release than the broker's, else the test fails.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest

from bench.apache_kafka import VERSION
from ottla.client.errors import NotSupported, SettingError
from ottla.wire.releases import NAMES
from tests.support.old_kafka import STARTABLE

OTTLA, TODAY = "ottla", "apache-kafka"
RELEASES_OF_PEERS: Mapping[str, str] = {f"kafka-{release}": release for release in STARTABLE}
"""The release of each peer with an older one, by the peer's name."""
PEERS = (OTTLA, TODAY, *RELEASES_OF_PEERS)
ASKS_FOR = re.compile(
    r"needs?(?: Kafka|,? and api_version)? (\d+\.\d+(?:\.\d+)?)|by Kafka (\d+\.\d+)|use Kafka (\d+\.\d+(?:\.\d+)?)"
)
UNASKED = NAMES[: NAMES.index("0.10.0")]
"""The releases without ApiVersions, of which clients have to be told."""


def number(release: str) -> tuple[int, ...]:
    """Return a release's number, to compare."""
    return tuple(map(int, release.split(".")))


def release_of(peer: str) -> str:
    """Return the release of a peer; of Ottla, the newest."""
    return NAMES[-1] if peer == OTTLA else RELEASES_OF_PEERS.get(peer, VERSION.rpartition(".")[0])


def refused_for(error: BaseException, release: str) -> str:
    """Return the sentence with which a client refuses a call because its broker is older than the sentence says, or ""."""
    if not isinstance(error, NotSupported | SettingError):
        cause = error.__cause__
        return refused_for(cause, release) if cause is not None else ""
    named = ASKS_FOR.search(str(error))
    since = next((found for found in named.groups() if found), "") if named else ""
    return str(error) if since and number(since) > number(release) else ""


def select(config: pytest.Config, items: list[pytest.Item], peer: str) -> None:
    """Deselect tests of clients that use no peer, and mark those to skip whose mark `since` names a newer release."""
    chosen: list[pytest.Item] = []
    others: list[pytest.Item] = []
    for item in items:
        uses_peer = isinstance(item, pytest.Function) and "peer_name" in item.fixturenames
        (chosen if uses_peer or not item.nodeid.startswith("tests/client/") else others).append(item)
        for mark in item.iter_markers("since"):
            since, what = mark.args
            if number(since) > number(release_of(peer)):
                item.add_marker(pytest.mark.skip(reason=f"{what}: Kafka {since}"))
    items[:] = chosen
    if others:
        config.hook.pytest_deselected(items=others)


def skip_refused(report: pytest.TestReport, call: pytest.CallInfo[None], peer: str) -> None:
    """Turn the report of a test whose client refused a call of the peer's release into one of a skipped test, with the reason."""
    reason = refused_for(call.excinfo.value, release_of(peer)) if call.excinfo is not None else ""
    if reason:
        report.outcome = "skipped"
        path, line, _ = report.location
        report.longrepr = (path, (line or 0) + 1, f"Skipped: {reason}")
