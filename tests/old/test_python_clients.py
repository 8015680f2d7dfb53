"""kafka-python of 2015 to 2020, on a listener of today and on listeners of old releases, among clients of today."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.old.conftest import TODAY, ManyReleases
from tests.old.libraries import library
from tests.old.today import COUNT, consume_today, produce_today, written

PROGRAMS = Path(__file__).with_name("python")
Unique = Callable[[str], str]
ASK = "ask"
CASES = [
    ("0.9.5", "", TODAY),
    ("0.9.5", "", "0.8.1"),
    ("0.9.5", "", "0.8.2"),
    ("0.9.5", "", "0.9.0"),
    ("1.4.7", ASK, TODAY),
    ("1.4.7", ASK, "0.9.0"),
    ("1.4.7", ASK, "0.10.1"),
    ("1.4.7", "0.8.1", "0.8.1"),
    ("1.4.7", "0.8.2", "0.8.2"),
    ("1.4.7", "0.8.2", TODAY),
    ("1.4.7", "0.9", TODAY),
    ("1.4.7", "0.10.0", TODAY),
    ("2.0.2", ASK, TODAY),
    ("2.0.2", ASK, "0.8.2"),
    ("2.0.2", ASK, "0.9.0"),
    ("2.0.2", ASK, "0.11.0"),
    ("2.0.2", ASK, "2.8"),
    ("2.0.2", "0.8.2", TODAY),
    ("2.0.2", "0.11", TODAY),
]
"""The library's version, the release that it is held to (or asks for), and the release that the listener is."""


def run(version: str, program: str, *arguments: str) -> dict[str, Any]:
    """What one of the programs found out. Fails the test when it fails, and shows what it said."""
    path = os.pathsep.join(map(str, (library("kafka-python", version, "six"), PROGRAMS)))
    command = [sys.executable, "-W", "ignore", str(PROGRAMS / f"{program}.py"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env={**os.environ, "PYTHONPATH": path})
    assert done.returncode == 0, f"{program} {arguments} failed:\n{done.stderr[-4000:]}"
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize(("version", "held_to", "listener"), CASES)
@pytest.mark.rows(6, seconds=2)
def test_an_old_client_writes_reads_and_commits_among_clients_of_today(
    version: str, held_to: str, listener: str, releases: ManyReleases, unique: Unique
) -> None:
    codecs = ("none", "gzip", "snappy") if version == "0.9.5" or held_to == "0.8.1" else ("none", "gzip", "snappy", "lz4")
    mine = {unique(f"mine-{codec}"): codec for codec in codecs}
    theirs = {unique(f"theirs-{codec}"): codec for codec in codecs}
    for topic, codec in theirs.items():
        produce_today(releases.addresses[TODAY], topic, codec)
    topics = [*(f"{topic}={codec}" for topic, codec in mine.items()), *theirs]
    address, group = releases.addresses[listener], unique("old-group")
    if version == "0.9.5":
        found = run(version, "kafka_python_2015", address, str(COUNT), group, *topics)
    else:
        found = run(version, "kafka_python_2019", address, str(COUNT), group, held_to, *topics)
    for topic in (*mine, *theirs):
        expected = [[i, f"k{i}", f"v{i}"] for i in range(COUNT)]
        assert found[topic] == {"read": expected, "committed": COUNT, "last": COUNT}
    for topic in mine:
        assert consume_today(releases.addresses[TODAY], topic) == written(topic)
