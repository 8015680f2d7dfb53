"""Typed columns in Spark: `valueFormat` of Ottla's source beside `from_json` over Spark's JVM connector, on one broker in one run.

`python -m bench.spark_formats`; what is beside it for other formats is Ottla's alone. Says what it could not measure, and why.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.report import Results, table
from bench.servers import Ottla, Server
from bench.spark import (
    CONNECTOR,
    NotMeasured,
    connector_jars,
    connector_python,
    last_lines,
    ottla_environment,
    plain_environment,
    session_settings,
)

JOB = Path(__file__).with_name("spark_formats_job.py")
COLUMNS = "id INT, carrier STRING, delay DOUBLE, origin STRING, dest STRING, at TIMESTAMP"
FORMATS = ("json", "csv", "avro", "arrow")
ROWS = 1_000_000


def fill(address: str, rows: int) -> None:
    """One topic with flights as JSON, about 120 bytes each, in two partitions."""
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    admin = AdminClient({"bootstrap.servers": address})
    names = ["flights-json", *(f"flights-{name}" for name in FORMATS if name != "json")]
    for made in admin.create_topics([NewTopic(name, 2, 1) for name in names]).values():
        made.result(30)
    producer = Producer({"bootstrap.servers": address, "linger.ms": 50, "queue.buffering.max.messages": 3_000_000})
    for number in range(rows):
        flight = {
            "id": number,
            "carrier": "AA",
            "delay": number * 0.5,
            "origin": "JFK",
            "dest": "LAX",
            "at": "2013-01-01T10:00:00Z",
        }
        producer.produce("flights-json", json.dumps(flight).encode(), partition=number & 1)
        if not number & 0xFFFF:
            producer.poll(0)
    if producer.flush(300):
        raise RuntimeError("the broker did not take the flights")


def run(kind: str, address: str, repeats: int) -> dict[str, list[float]]:
    """Seconds for each query, by its name. Raises `NotMeasured`."""
    settings = session_settings()
    if kind == "ottla":
        python, environment = sys.executable, ottla_environment()
    else:
        python = connector_python()
        environment, settings["spark.jars"] = plain_environment(python), ",".join(map(str, connector_jars()))
    job = {"format": kind, "bootstrap": address, "repeats": repeats, "columns": COLUMNS, "formats": FORMATS, "settings": settings}
    done = subprocess.run([python, str(JOB), json.dumps(job)], capture_output=True, text=True, env=environment, timeout=1200)
    if done.returncode:
        raise NotMeasured(f"the Spark job over {kind} failed: {last_lines(done.stderr)}")
    found: dict[str, list[float]] = json.loads(done.stdout.splitlines()[-1])
    return found


def measure(results: Results, servers: Sequence[Server], repeats: int, divide: int = 1) -> None:
    """Ottla's source, on its own broker, and beside it the JVM connector on the same one."""
    server, rows = servers[0], ROWS // divide
    fill(server.address, rows)
    for kind, name in (("ottla", server.name), *((("kafka", results.servers[-1]),) if results.has_peer else ())):
        try:
            for query, took_s in run(kind, server.address, repeats).items():
                for each_s in took_s:
                    results.add(name, {query: rows / each_s})
        except NotMeasured as missing:
            results.notes.append(f"Typed columns by Spark's format {kind!r} were not measured: {missing}.")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.spark_formats", description=__doc__)
    parser.add_argument("--divide", type=int, default=1, metavar="N", help="make every topic N times smaller")
    parser.add_argument("--repeats", type=int, default=3)
    wanted = parser.parse_args()
    with Ottla() as server:
        results = Results([server.name, CONNECTOR])
        measure(results, [server], wanted.repeats, wanted.divide)
    print(table(results), *results.notes, sep="\n")


if __name__ == "__main__":
    main()
