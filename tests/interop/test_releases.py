"""Listeners that are releases of Kafka, as other people's clients meet them; and what the page about them shows is run."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from kafka import KafkaConsumer, KafkaProducer

import ottla
from bench.apache_kafka import free_port
from ottla.broker.releases import NAMES
from ottla.testing import BrokerProcess
from tests.support.frames import Raw, request

PAGE = (Path(__file__).parents[2] / "docs" / "releases.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
UNASKED = NAMES[: NAMES.index("0.10.0")]
CODECS = {"0.8.0": "snappy", "0.9.0": "lz4", "0.10.0": "gzip", "0.10.2": "lz4", "0.11.0": "snappy", "2.8": "zstd"}
LINES = [b"line %d " % n * 20 for n in range(100)]


def test_the_matrix_of_the_page_runs(tmp_path: Path) -> None:
    matrix, _ = EXAMPLES
    done = subprocess.run([sys.executable, "-c", matrix], capture_output=True, text=True, cwd=tmp_path, timeout=100)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("works") == 8


def test_the_fixture_of_the_page_runs_with_every_release(tmp_path: Path) -> None:
    _, tests = EXAMPLES
    (tmp_path / "test_mine.py").write_text(tests)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "test_mine.py"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=100)
    assert "3 passed" in done.stdout, done.stdout + done.stderr


def test_the_page_names_every_setting_that_a_release_changes() -> None:
    from ottla.broker.releases.traits import SETTINGS

    assert [name for name in SETTINGS if f"`{name}`" not in PAGE] == []


def confluent(address: str, release: str) -> dict[str, object]:
    """Settings of librdkafka for a broker of a release; before 0.10 it cannot ask, and has to be told."""
    if release not in UNASKED:
        return {"bootstrap.servers": address}
    return {"bootstrap.servers": address, "api.version.request": False, "broker.version.fallback": release, "log_level": 0}


def write(address: str, release: str, topic: str, codec: str) -> None:
    producer = Producer({**confluent(address, release), "compression.type": codec, "linger.ms": 100})
    failures: list[object] = []
    for line in LINES:
        producer.produce(topic, line, key=b"k", partition=0, on_delivery=lambda error, _: failures.append(error) if error else None)
    assert producer.flush(30) == 0
    assert failures == []


def read(address: str, release: str, topic: str, count: int) -> list[bytes | None]:
    consumer = Consumer({**confluent(address, release), "group.id": "g", "enable.auto.commit": False, "session.timeout.ms": 10_000})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[bytes | None] = []
    while len(found) < count:
        message = consumer.poll(20)
        assert message is not None, f"{len(found)} of {count} came"
        assert message.error() is None
        found.append(message.value())
    consumer.close()
    return found


class Listeners:
    """One broker with a listener for today, and one for each of some releases."""

    def __init__(self, home: Path) -> None:
        self.ports = {release: free_port() for release in CODECS}
        arguments = [text for release, port in self.ports.items() for text in ("--listen", f"127.0.0.1:{port},release={release}")]
        self.process = BrokerProcess(home / "data", arguments=arguments)

    def address(self, release: str) -> str:
        return f"127.0.0.1:{self.ports[release]}"


@pytest.fixture(scope="module")
def listeners(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Listeners]:
    made = Listeners(tmp_path_factory.mktemp("releases"))
    with made.process:
        yield made


@pytest.mark.rows(2, seconds=1)
@pytest.mark.parametrize("release", CODECS)
def test_what_an_old_listener_took_in_and_todays_did_can_be_read_at_the_other(listeners: Listeners, release: str) -> None:
    old, today, topic = listeners.address(release), listeners.process.address, f"crossed-{release}"
    write(old, release, topic, CODECS[release])
    write(today, "4.4", topic, CODECS[release])
    assert read(today, "4.4", topic, 200) == LINES * 2
    assert read(old, release, topic, 200) == LINES * 2


@pytest.mark.filterwarnings("ignore:unclosed <socket.socket:ResourceWarning")  # kafka-python forgets one now and then
@pytest.mark.parametrize("release", NAMES)
@pytest.mark.rows(4, seconds=1)
def test_kafka_python_writes_and_reads_at_every_release(release: str) -> None:
    with ottla.Broker(release=release) as broker:
        settings: dict[str, object] = {"bootstrap_servers": broker.address}
        if release in UNASKED:
            settings["api_version"] = tuple(map(int, release.split(".")))
        producer = KafkaProducer(**settings)
        for line in LINES:
            producer.send("lines", line)
        producer.flush(20)
        producer.close()
        grouped = {"group_id": "readers"} if NAMES.index(release) >= NAMES.index("0.9.0") else {}
        consumer = KafkaConsumer("lines", auto_offset_reset="earliest", consumer_timeout_ms=20_000, **settings, **grouped)
        assert [next(consumer).value for _ in LINES] == LINES
        if grouped:
            consumer.commit()
        consumer.close()


def closes_at_a_probe(address: str) -> bool:
    """Whether ApiVersions has the connection closed; False where nothing happens for a while."""
    with Raw(address) as raw:
        raw.send(request(18, 0, 1))
        return raw.is_closed(0.5)


def test_a_probe_is_closed_met_with_silence_or_answered_as_the_release_did() -> None:
    with ottla.Broker(release="0.8.2") as broker:
        assert closes_at_a_probe(broker.address)
    with ottla.Broker(release="0.9.0") as broker:
        with Raw(broker.address) as raw:
            raw.send(request(18, 0, 1))
            raw.send(request(3, 0, 2, bytes(4)))
            assert raw.frame()[:4] == b"\0\0\0\2", "what comes behind the probe is answered"
        assert not closes_at_a_probe(broker.address)
    with ottla.Broker(release="0.10.0") as broker, Raw(broker.address) as raw:
        assert raw.is_served()


def test_an_unknown_release_is_one_sentence_for_python_and_on_the_command_line(tmp_path: Path) -> None:
    with pytest.raises(ottla.SettingError, match=r"^There is no release '0\.5': choose one of 0\.6, 0\.7, 0\.8\.0, "):
        ottla.Broker(release="0.5")
    assert "choose one of 0.6, 0.7, 0.8.0" in refused(tmp_path, "--listen", "127.0.0.1:0,release=0.5")
    for listen in ("127.0.0.1:0,realease=0.9.0", "127.0.0.1:0,release=", "127.0.0.1:0,"):
        assert "then optionally ,release=RELEASE" in refused(tmp_path, "--listen", listen)
    assert "'a/b' is not a listener's name" in refused(tmp_path, "--listen", "127.0.0.1:0,name=a/b")
    assert "'TLS' is not a security protocol" in refused(tmp_path, "--listen", "127.0.0.1:0,security=TLS")
    assert "Listener SSL has PLAINTEXT, but SSL in" in refused(tmp_path, "--listen", "127.0.0.1:0,name=SSL,security=PLAINTEXT")
    assert "OLD, which is not in listeners" in refused(tmp_path, "--set", "ottla.listener.releases=OLD:0.9.0")


@pytest.mark.full(seconds=5)
def test_releases_of_the_settings_hold_for_listeners_of_the_command_line_that_name_none(tmp_path: Path) -> None:
    releases = {"ottla.listener.releases": "PLAINTEXT:0.9.0,OLD:0.8.2"}
    named = ("--listen", "127.0.0.1:0,name=OLD,release=0.10.0")
    with BrokerProcess(tmp_path / "named", releases, arguments=named) as broker:
        assert most_session_ms(broker.address) > 31_000, "listeners of two releases"
        with Raw(broker.address) as raw:
            raw.send(request(18, 0, 1))
            raw.send(request(3, 0, 2, bytes(4)))
            assert raw.frame()[:4] == b"\0\0\0\2", "a probe is met with silence, as in 0.9"


def refused(home: Path, *arguments: str) -> str:
    """The one line with which `ottla serve` refuses its arguments."""
    command = [sys.executable, "-m", "ottla.cli.main", "serve", "--data-dir", str(home / "d"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr


@pytest.mark.full(seconds=6)
def test_one_release_for_all_listeners_brings_its_defaults_and_two_do_not(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "one", release="0.9.0") as broker:
        assert most_session_ms(broker.address) < 31_000
    other = ("--listen", f"127.0.0.1:{free_port()}")
    with BrokerProcess(tmp_path / "two", release="0.9.0", arguments=other) as broker:
        assert most_session_ms(broker.address) > 31_000


def most_session_ms(address: str) -> int:
    """30,000 where a group refuses a session of 45 seconds, 45,000 where it takes it."""
    with Raw(address) as raw:
        for _ in range(2):
            raw.ask(10, 0, b"\0\1g")
        body = b"\0\1g" + (45_000).to_bytes(4, "big") + b"\0\0\0\1c" + b"\0\0\0\1\0\5range\0\0\0\0"
        return 30_000 if raw.ask(11, 0, body).number("h") == 26 else 45_000


def test_listeners_of_a_properties_file_have_their_releases(tmp_path: Path) -> None:
    today, old = free_port(), free_port()
    text = PAGE.partition("```properties\n")[2].partition("```")[0].replace("9092", str(today)).replace("9093", str(old))
    (tmp_path / "server.properties").write_text(text)
    command = [sys.executable, "-m", "ottla.cli.main", "serve", "--data-dir", str(tmp_path / "d")]
    process = subprocess.Popen(
        [*command, "--config", str(tmp_path / "server.properties")], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    with process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert f"answers at 127.0.0.1:{today}, 127.0.0.1:{old} as 0.9.0" in line
            with Raw(f"127.0.0.1:{today}") as raw:
                assert raw.is_served()
            assert not closes_at_a_probe(f"127.0.0.1:{old}")
        finally:
            process.terminate()
