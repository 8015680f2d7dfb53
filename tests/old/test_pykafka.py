"""pykafka 2.8.0, whose wrappers and wrapped messages all have the offset -1, whatever release it is told to talk to."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.old.conftest import TODAY, ManyReleases
from tests.old.libraries import library
from tests.old.today import COUNT, consume_today, written

PROGRAM = Path(__file__).with_name("python") / "pykafka_2018.py"
Unique = Callable[[str], str]


@pytest.mark.rows(2, seconds=1)
@pytest.mark.parametrize(
    ("held_to", "listener"), [("0.9.0", "0.9.0"), ("0.9.0", TODAY), ("0.10.2", "0.10.2"), ("1.0.0", "1.1"), ("1.0.0", TODAY)]
)
def test_what_pykafka_writes_is_read_by_itself_and_by_clients_of_today(
    held_to: str, listener: str, releases: ManyReleases, unique: Unique
) -> None:
    folder = library("pykafka", "2.8.0", "six", "kazoo", "tabulate", "setuptools<81")
    topics = {unique(f"pykafka-{codec}"): codec for codec in ("none", "gzip")}
    command = [sys.executable, "-W", "ignore", str(PROGRAM), releases.addresses[listener], held_to, str(COUNT)]
    command += [f"{topic}={codec}" for topic, codec in topics.items()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env={**os.environ, "PYTHONPATH": str(folder)})
    assert done.returncode == 0, done.stderr[-4000:]
    for topic in topics:
        expected = written(topic)
        assert json.loads(done.stdout)[topic] == [record[2:] for record in expected]
        assert consume_today(releases.addresses[TODAY], topic) == expected
