"""`make torture-pipelines`: `ottla pipeline archive`, `replay` and `mirror` killed again and again; each record must arrive once.

    python -m tests.torture.pipelines --kills 10

Each is started with small steps and killed with SIGKILL a random moment after it was started or has told a step, so many times;
then it runs to its end. What it wrote is held against what was there: each record once, in the order of its partition.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pyarrow.dataset as dataset
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # its stubs leave out what it passes on

from ottla.testing.process import BrokerProcess

TOPIC, PARTITIONS, RECORDS, STEP = "flights", 3, 20_000, 1000
LONGEST_LIFE_S = 4.0
"""How long after its first step a run lives at most."""
PATIENCE_S = 180

Found = list[tuple[int, bytes]]


class Killed(NamedTuple):
    """How often a pipeline was killed, in how many of these lives it had told a step, and whether what it wrote is right."""

    name: str
    kills: int
    lives: int
    wrong: str

    def __str__(self) -> str:
        done = self.wrong or "each record once"
        return f"{self.name}: killed {self.kills} times, {self.lives} of them in the middle of its work: {done}"


def fill(address: str) -> Found:
    admin = AdminClient({"bootstrap.servers": address})
    for made in admin.create_topics([NewTopic(TOPIC, num_partitions=PARTITIONS, replication_factor=1)]).values():
        made.result(timeout=20)
    producer = Producer({"bootstrap.servers": address, "linger.ms": 5})
    records = [(number % PARTITIONS, b"%d" % number) for number in range(RECORDS)]
    for partition, value in records:
        producer.produce(TOPIC, value, partition=partition)
        producer.poll(0)
    producer.flush(30)
    return sorted(records, key=lambda each: each[0])


def in_topic(address: str) -> Found:
    """What readers of committed records see of the topic, partition by partition."""
    settings = {"bootstrap.servers": address, "group.id": "judge", "isolation.level": "read_committed"}
    consumer = Consumer({**settings, "enable.partition.eof": True, "enable.auto.commit": False})
    consumer.assign([TopicPartition(TOPIC, index, 0) for index in range(PARTITIONS)])
    found: Found = []
    ended = 0
    while ended < PARTITIONS:
        for each in consumer.consume(5000, timeout=1):
            if (error := each.error()) is None:
                found.append((each.partition() or 0, each.value() or b""))
            elif error.code() == KafkaError._PARTITION_EOF:
                ended += 1
    consumer.close()
    return sorted(found, key=lambda each: each[0])


def in_files(directory: Path) -> Found:
    files = sorted(map(str, directory.glob("topic=*/date=*/*.parquet")))
    rows = dataset.dataset(files, format="parquet").to_table(["partition", "offset", "value"]).to_pylist()
    return [(row["partition"], row["value"]) for row in sorted(rows, key=lambda row: (row["partition"], row["offset"]))]


def started(words: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "ottla.cli.main", "pipeline", *words, "--json"], stdout=subprocess.PIPE, text=True
    )


def one_life(words: list[str], chance: random.Random) -> bool:
    """Start a pipeline and kill it; whether it had told a step. One in four is killed before it can have."""
    with started(words) as process:
        if chance.random() < 0.25:
            time.sleep(chance.uniform(0, 10))
            process.kill()
            return False
        assert process.stdout is not None
        told = process.stdout.readline()
        time.sleep(chance.uniform(0, LONGEST_LIFE_S))
        process.kill()
        return bool(told)


def tortured(name: str, words: list[str], kills: int, chance: random.Random, found: Callable[[], Found], right: Found) -> Killed:
    lives = sum(one_life(words, chance) for _ in range(kills))
    with started(words) as process:
        code = process.wait(PATIENCE_S)
    if code:
        return Killed(name, kills, lives, f"the last run ended with exit code {code}")
    arrived = found()
    wrong = "" if arrived == right else f"{len(arrived)} records of {len(right)} arrived, or not in their order"
    return Killed(name, kills, lives, wrong)


def torture(kills: int, seed: int, directory: Path) -> list[Killed]:
    chance = random.Random(seed)
    with (
        BrokerProcess(directory / "here") as here,
        BrokerProcess(directory / "there") as there,
        BrokerProcess(directory / "again") as again,
    ):
        right = fill(here.address)
        archive, small = str(directory / "archive"), ["--once", "--option", f"maxOffsetsPerTrigger={STEP}"]
        replay = ["replay", archive, "--rows-per-part", str(STEP), "--state", str(directory / "replay")]
        mirror = ["mirror", TOPIC, *small, "--to", there.address, "--state", str(directory / "mirror")]
        steps = {
            "archive": (["archive", TOPIC, archive, *small], here, lambda: in_files(Path(archive))),
            "replay": (replay, again, lambda: in_topic(again.address)),
            "mirror": (mirror, here, lambda: in_topic(there.address)),
        }
        return [
            tortured(name, [*words, "--bootstrap-server", broker.address], kills, chance, found, right)
            for name, (words, broker, found) in steps.items()
        ]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.torture.pipelines", description=__doc__)
    parser.add_argument("--kills", type=int, default=10, help="of each pipeline (default 10)")
    parser.add_argument(
        "--seed", type=int, default=random.randrange(1 << 30), help="the same moments again, as far as moments can be"
    )
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="ottla-pipelines-") as directory:
        found = torture(options.kills, options.seed, Path(directory))
    for each in found:
        print(each)
    return int(any(each.wrong for each in found))


if __name__ == "__main__":
    sys.exit(main())
