"""Makes topics, runs the declared pipeline as `spark-pipelines run` does, and checks what came of it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import ottla
from ottla.spark.session import prepare_environment

HERE = Path(__file__).parent
FLIGHTS, PARTITIONS = 900, 2
CARRIERS = {"AA": "American", "B6": "JetBlue", "UA": "United"}
RIGHT = {"AA": ("American", 300, 43.5), "B6": ("JetBlue", 300, 44.5), "UA": ("United Air Lines", 300, 45.5)}
LATE = 290
"""Delays are 0 to 89 minutes, ten times each, and carriers take turns; 29 delays are above an hour."""


def fill(servers: str) -> None:
    """Flights of three carriers; one carrier's name is mended, and another carrier is deleted."""
    with ottla.Admin(servers) as admin:
        for name, configs in {"flights": {}, "carriers": {"cleanup.policy": "compact"}, "late-flights": {}}.items():
            admin.create_topic(name, PARTITIONS, configs=configs)
    with ottla.Producer(servers) as producer:
        for key, name in [*CARRIERS.items(), ("ZZ", "Nobody"), ("UA", "United Air Lines")]:
            producer.send("carriers", key=key.encode(), value=name.encode())
        producer.send("carriers", key=b"ZZ", value=None)
        for number in range(FLIGHTS):
            carrier = list(CARRIERS)[number % 3]
            flight = {"carrier": carrier, "origin": "JFK", "delay": number % 90}
            producer.send("flights", key=carrier.encode(), value=json.dumps(flight).encode())


def run(servers: str, directory: Path, command: str = "run", **more: str) -> None:
    """Run the pipeline in `directory`, where its tables come to lie, with `more` in its environment. Raises CalledProcessError."""
    prepare_environment()
    python = Path(sys.executable).parent
    environment = os.environ | more | {"OTTLA_SERVERS": servers, "PATH": f"{python}{os.pathsep}{os.environ['PATH']}"}
    shutil.copytree(HERE / "definitions", directory / "definitions", dirs_exist_ok=True)
    spec = (HERE / "spark-pipeline.yml").read_text()
    (directory / "spark-pipeline.yml").write_text(f"{spec}storage: file://{directory}/state\n")
    settings = {
        "spark.sql.catalogImplementation": "hive",  # or the next run would know of no table that this one made
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
    }
    words = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    subprocess.run(["spark-pipelines", command, *words], cwd=directory, env=environment, check=True)


def delays(directory: Path) -> dict[str, tuple[str, int, float]]:
    """What the materialised view holds, by carrier."""
    from pyarrow import dataset

    rows = dataset.dataset(directory / "spark-warehouse" / "delays", format="parquet").to_table().to_pylist()
    return {row["carrier"]: (row["name"], row["flights"], round(row["mean_delay"], 2)) for row in rows}


def late_flights(servers: str) -> int:
    """How many records topic `late-flights` holds."""
    partitions = [ottla.TopicPartition("late-flights", index) for index in range(PARTITIONS)]
    with ottla.Consumer(bootstrap_servers=servers, isolation_level="read_committed", auto_offset_reset="earliest") as consumer:
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        found = 0
        while any(consumer.position(where) < ends[where] for where in partitions):
            found += len(consumer.poll(100))
    return found


def main() -> int:
    with ottla.Broker() as broker, tempfile.TemporaryDirectory(prefix="ottla-declared-") as name:
        fill(broker.address)
        run(broker.address, Path(name))
        found = delays(Path(name)), late_flights(broker.address)
        if "--changes" in sys.argv[1:]:  # tables that take changes need jars; that the flow is right shows without
            run(broker.address, Path(name), "dry-run", OTTLA_LAKE="spark_catalog.default")
    print(*found)
    if found != (RIGHT, LATE):
        print(f"It should be {RIGHT} and {LATE}.")
        return 1
    print("As it should be.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
