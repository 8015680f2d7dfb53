"""Typed columns in Spark: `valueFormat` of Ottla's source beside `from_json` over Spark's JVM connector, on one broker in one run.

`python -m bench.spark_formats`; what is beside it for other formats is Ottla's alone. Says what it could not measure, and why.
"""

from __future__ import annotations

import argparse
import io
import json
import subprocess
import sys
from pathlib import Path

from bench.servers import Ottla
from bench.spark import NotMeasured, connector_jars, connector_python, last_lines, ottla_environment, plain_environment

JOB = Path(__file__).with_name("spark_formats_job.py")
COLUMNS = "id INT, carrier STRING, delay DOUBLE, origin STRING, dest STRING, at TIMESTAMP"
FORMATS = ("json", "csv", "avro", "arrow")


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
    if kind == "ottla":
        python, environment, settings = sys.executable, ottla_environment(), dict[str, str]()
    else:
        python = connector_python()
        environment, settings = plain_environment(python), {"spark.jars": ",".join(map(str, connector_jars()))}
    job = {"format": kind, "bootstrap": address, "repeats": repeats, "columns": COLUMNS, "formats": FORMATS, "settings": settings}
    done = subprocess.run([python, str(JOB), json.dumps(job)], capture_output=True, text=True, env=environment, timeout=1200)
    if done.returncode:
        raise NotMeasured(f"the Spark job over {kind} failed: {last_lines(done.stderr)}")
    found: dict[str, list[float]] = json.loads(done.stdout.splitlines()[-1])
    return found


def table(rows: int, took_s: dict[str, list[float]]) -> str:
    """Rows per second, the best of all repeats: others were disturbed."""
    out = io.StringIO()
    print("| query | rows/s |\n|---|---|", file=out)
    for name, seconds in took_s.items():
        print(f"| {name} | {rows / min(seconds) / 1e6:.2f} M |", file=out)
    return out.getvalue()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.spark_formats", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    wanted = parser.parse_args()
    took_s: dict[str, list[float]] = {}
    with Ottla() as broker:
        fill(broker.address, wanted.rows)
        for kind in ("ottla", "kafka"):
            try:
                took_s |= run(kind, broker.address, wanted.repeats)
            except NotMeasured as missing:
                print(f"not measured: {missing}")
    print(table(wanted.rows, took_s))


if __name__ == "__main__":
    main()
