"""The examples of `ottla serve`, `log`, `registry`, `mirror`, `decode` and `protocol`."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import ottla
from ottla.registry.generations import DIRECTORIES
from ottla.testing import BrokerProcess
from tests.helps.scenario import example
from tests.helps.world import HelpWorld
from tests.unit.cli.packets import Talk, pcap

SEGMENT = Path("data/flights-0/00000000000000000000.log")
READY = " answers at "
FRAME = bytes.fromhex("00000019000300010000000700026d65000000010007666c6967687473")
"""A request for the metadata of the topic flights."""


@example("serve --data-dir data --listen 127.0.0.1:9092")
@example("serve --data-dir data --listen 127.0.0.1:9092 --set num.partitions=6 --log-level warning")
@example("serve --data-dir data --listen 127.0.0.1:9092 --config broker.properties")
def a_broker_serves_until_ctrl_c(world: HelpWorld) -> None:
    world.words["127.0.0.1:9092"] = "127.0.0.1:0"
    Path("broker.properties").write_text("num.partitions=6\n")
    with world.following(code=0) as command:
        command.wait_for(" (data in ")
        address = command.text.partition(READY)[2].split()[0]
        with ottla.Admin(address) as admin:
            admin.create_topic("flights")
            partitions = 1 if world.line.endswith("9092") else 6
            assert len(admin.describe_topics("flights")["flights"].partitions) == partitions


@example("serve --data-dir data --listen 127.0.0.1:9092 --metrics 127.0.0.1:9404")
def a_broker_shows_metrics_beside_its_clients(world: HelpWorld) -> None:
    world.words |= {"127.0.0.1:9092": "127.0.0.1:0", "127.0.0.1:9404": "127.0.0.1:0"}
    with world.following(code=0) as command:
        command.wait_for("/metrics\n")
        place = command.text.partition("metrics are at ")[2].split()[0]
        with urlopen(place, timeout=30) as page:
            assert b"kafka_controller_kafkacontroller_activecontrollercount 1\n" in page.read()


def stopped_broker() -> None:
    """Leave the data directory of a broker with a topic of two partitions and three records."""
    with ottla.Broker(data_dir="data", num_partitions=2) as broker, ottla.Producer(broker.address) as producer:
        for number in range(3):
            producer.send("flights", b"%d" % number, partition=0)


@example("log check data")
@example("log check data/flights-0 --json")
def a_log_is_checked(world: HelpWorld) -> None:
    stopped_broker()
    world.run()
    written = SEGMENT.read_bytes()
    damaged = written[:-1] + bytes([written[-1] ^ 1])
    SEGMENT.write_bytes(damaged)
    assert SEGMENT.name in world.run(code=1).out
    assert SEGMENT.read_bytes() == damaged


@example("log check data --repair")
def a_log_is_mended(world: HelpWorld) -> None:
    stopped_broker()
    whole = SEGMENT.read_bytes()
    SEGMENT.write_bytes(whole + b"torn")
    world.run("log check data", code=1)
    assert world.run().out.endswith("Nothing is damaged.\n")
    assert SEGMENT.read_bytes() == whole
    world.run("log check data")


@example("log dump data/flights-0")
@example("log dump data --deep")
@example("log dump data/flights-0/00000000000000000000.log --json")
def a_log_is_printed(world: HelpWorld) -> None:
    stopped_broker()
    out = world.run().out
    assert "0000.log" in out or "base_offset" in out
    assert all(isinstance(json.loads(line), dict) for line in (out.splitlines() if "--json" in world.line else ()))


@example("registry check data")
@example("registry check data --json")
def a_registry_is_checked(world: HelpWorld) -> None:
    stopped_broker()
    world.run()
    shutil.copytree("data/flights-0", "data/unknown-0")
    assert "unknown" in world.run(code=1).out


@example("registry check sqlite:registry")
def a_shared_registry_is_checked(world: HelpWorld) -> None:
    stopped_broker()
    world.run("registry copy data sqlite:registry")
    world.run()


def damage_registry() -> None:
    """Damage both copies of the registry of a stopped broker in the entry of its topic."""
    stopped_broker()
    for name in DIRECTORIES:
        (journal,) = Path("data", name).glob("*.journal")
        data = bytearray(journal.read_bytes())
        data[data.index(b"/brokers/topics/flights") + 5] ^= 1
        journal.write_bytes(data)


@example("registry restore data")
@example("registry restore data --adopt")
@example("registry restore data --set-aside")
def a_registry_is_restored(world: HelpWorld) -> None:
    damage_registry()
    world.run("registry check data", code=1)
    is_open = world.line.endswith("data")
    world.run(code=int(is_open))
    if is_open:
        return
    with ottla.Broker(data_dir="data") as broker, ottla.Admin(broker.address) as admin:
        assert admin.list_topics() == (["flights"] if "--adopt" in world.line else [])


@example("registry copy data sqlite:registry")
@example("registry copy sqlite:registry sqlite:elsewhere")
@example("registry copy sqlite:registry data", seconds=3)
def a_registry_is_copied(world: HelpWorld) -> None:
    stopped_broker()
    if not world.line.startswith("registry copy data"):
        world.run("registry copy data sqlite:registry")
    if world.line.endswith(" data"):
        with BrokerProcess("data", arguments=("--registry", "sqlite:registry")):
            """Let the broker be one of the cluster."""
    world.run()
    if world.line.endswith(" data"):
        with ottla.Broker(data_dir="data") as broker, ottla.Admin(broker.address) as admin:
            assert admin.list_topics() == ["flights"]
    else:
        world.run(f"registry check {world.line.split()[-1]}")


@example("registry accept-loss sqlite:registry --node-id 1")
def a_lost_directory_is_accepted(world: HelpWorld) -> None:
    stopped_broker()
    world.run("registry copy data sqlite:registry")
    assert world.run().out.startswith("Accepted: at its next start broker 1 leaves its in-sync sets")


MIRROR = "mirror flights --from 0.7 --bootstrap-server old:9092 --to localhost:9092"


@contextmanager
def broker07(world: HelpWorld) -> Iterator[None]:
    """Let a broker of Kafka 0.7 have two messages."""
    with ottla.Broker(release="0.7") as broker, ottla.Producer(broker.address, api_version="0.7") as producer:
        for value in (b"a", b"b"):
            producer.send("flights", value)
        producer.flush()
        world.words["old:9092"] = broker.address
        yield


@example(MIRROR, seconds=3)
def messages_are_copied_until_ctrl_c(world: HelpWorld) -> None:
    with broker07(world), world.following(code=0) as command:
        command.wait_for("2 messages")
        world.wait_until(lambda: "flights" in world.admin.list_topics() and world.values() == [b"a", b"b"])


@example(f"{MIRROR} --once")
@example(f"{MIRROR} --once --prefix old- --json")
def messages_are_copied_once(world: HelpWorld) -> None:
    with broker07(world):
        world.run()
        assert world.values("old-flights" if "old-" in world.line else "flights") == [b"a", b"b"]
        world.run()
        assert len(world.admin.list_topics()) == 1


@example(f"decode {FRAME.hex()}")
def a_frame_is_a_tree(world: HelpWorld) -> None:
    out = world.run().out
    assert "Metadata" in out
    assert "flights" in out


@example("decode --file kafka.pcap --port 9092")
def a_capture_is_a_tree(world: HelpWorld) -> None:
    talk = Talk()
    talk.ask(FRAME)
    Path("kafka.pcap").write_bytes(pcap(talk.pieces))
    assert "flights" in world.run().out


@example("decode --json < frame.hex")
def frames_are_read_from_standard_input(world: HelpWorld) -> None:
    Path("frame.hex").write_text(FRAME.hex())
    assert "flights" in json.dumps(world.run().rows)


@example("protocol")
@example("protocol Fetch --version 12")
@example("protocol --errors")
def the_protocol_is_printed(world: HelpWorld) -> None:
    words = {"protocol": "ApiVersions", "protocol --errors": "NOT_LEADER_OR_FOLLOWER"}
    assert words.get(world.line, "max_wait_ms") in world.run().out
