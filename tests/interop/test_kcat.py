"""kcat (an older librdkafka) against the broker."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable

import pytest

from tests.support.frames import Raw
from tests.support.peers import Peer

Unique = Callable[[str], str]


@pytest.fixture(autouse=True)
def _have_kcat() -> None:
    if not shutil.which("kcat"):
        pytest.skip("kcat is not installed")


def kcat(broker: Peer, *arguments: str, stdin: str | None = None) -> str:
    command = ["kcat", "-b", broker.address, *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=40)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def topic(broker: Peer, unique: Unique) -> str:
    name = unique("kcat")
    with Raw(broker.address) as raw:
        assert raw.create_topic(name, 2) == 0
    return name


def test_it_lists_brokers_and_topics(broker: Peer, topic: str) -> None:
    listed = json.loads(kcat(broker, "-L", "-J"))
    assert [known["name"] for known in listed["brokers"]] == [broker.address]
    (found,) = (known for known in listed["topics"] if known["topic"] == topic)
    assert [part["partition"] for part in found["partitions"]] == [0, 1]


@pytest.mark.rows(2, seconds=3)
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_it_reads_what_it_wrote(broker: Peer, topic: str, codec: str) -> None:
    lines = "".join(f"key{n}|value {n}\n" for n in range(200))
    kcat(broker, "-P", "-t", topic, "-p", "1", "-K", "|", "-z", codec, "-H", "source=kcat", stdin=lines)
    assert kcat(broker, "-C", "-t", topic, "-p", "1", "-o", "beginning", "-e", "-q", "-f", "%k|%s\n") == lines
    assert kcat(broker, "-C", "-t", topic, "-p", "1", "-o", "-1", "-e", "-q", "-f", "%h %o %k\n") == "source=kcat 199 key199\n"


def test_it_finds_offsets_by_time(broker: Peer, topic: str) -> None:
    kcat(broker, "-P", "-t", topic, "-p", "0", stdin="a\nb\n")
    assert kcat(broker, "-Q", "-t", f"{topic}:0:-1").split()[-1] == "2"
    assert kcat(broker, "-Q", "-t", f"{topic}:0:1").split()[-1] == "0"


def test_it_reads_as_a_group_and_goes_on_where_it_stopped(broker: Peer, topic: str, unique: Unique) -> None:
    group = unique("kcat-group")
    kcat(broker, "-P", "-t", topic, "-p", "0", stdin="one\ntwo\nthree\n")
    earliest = ("-X", "auto.offset.reset=earliest")
    assert kcat(broker, "-G", group, *earliest, "-c", "2", "-q", topic) == "one\ntwo\n"
    assert kcat(broker, "-G", group, *earliest, "-c", "1", "-q", topic) == "three\n"
