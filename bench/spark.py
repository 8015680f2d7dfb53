"""Spark reading and writing: Ottla's source, and Spark's own JVM connector on Apache Kafka where its jars are in the cache.

Each runs in a process and, for the JVM connector, in an environment of its own (it goes with another PySpark). Says why it did
not measure what it could not.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from bench import apache_kafka
from bench.loads import Figures, has_leaders
from bench.servers import Server

CONNECTOR_PYSPARK = "4.2.0"
ROWS_100_B, ROWS_1_KB = 2_000_000, 400_000
JOB = Path(__file__).with_name("spark_job.py")


class NotMeasured(Exception):
    """One sentence that says what is missing."""


def connector_jars() -> list[Path]:
    """The JVM connector's jars, from the cache that they were put into by hand or by an earlier run."""
    lib = apache_kafka.cache_dir() / "spark-kafka-connector"
    jars = sorted(lib.glob("*.jar"))
    if not jars:
        raise NotMeasured(f"the jars of Spark's JVM connector are not in {lib.name} of the cache")
    return jars


def connector_python() -> str:
    """An environment with the PySpark that the connector was made for; made on first use."""
    home = apache_kafka.cache_dir() / f"ottla-bench-pyspark-{CONNECTOR_PYSPARK}"
    python = home / "bin" / "python"
    if not (home / ".complete").exists():
        install = [str(python), "-m", "pip", "install", "--quiet", f"pyspark=={CONNECTOR_PYSPARK}"]
        for command in ([sys.executable, "-m", "venv", str(home)], install):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise NotMeasured(f"PySpark {CONNECTOR_PYSPARK} could not be installed: {done.stderr.strip()[-200:]}")
        (home / ".complete").touch()
    return str(python)


def fill(server: Server) -> None:
    """The topics that Spark reads: two partitions, keys of 16 bytes."""
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    admin = AdminClient({"bootstrap.servers": server.address})
    sizes = {"spark-100": (ROWS_100_B, 100), "spark-1000": (ROWS_1_KB, 1000), "spark-out": (0, 0)}
    for topic, (count, size) in sizes.items():
        admin.create_topics([NewTopic(topic, 2, 1)])[topic].result(30)
        while not has_leaders(admin, topic, 2):
            pass
        producer = Producer({"bootstrap.servers": server.address, "linger.ms": 50, "queue.buffering.max.messages": 3_000_000})
        for number in range(count):
            producer.produce(topic, bytes(size), b"%016d" % number, partition=number & 1)
            if not number & 0xFFFF:
                producer.poll(0)
        if producer.flush(120):
            raise RuntimeError(f"{server.name} did not take the rows for Spark")


def plain_environment(python: str) -> dict[str, str]:
    """This process's, for another Python, without what was set for this one."""
    wanted = {**os.environ, "PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python}
    wanted.pop("PYTHONPATH", None)
    return wanted


def ottla_environment() -> dict[str, str]:
    """As Ottla prepares it for its users. Raises `NotMeasured`."""
    from ottla.spark.java import NoJava
    from ottla.spark.session import prepare_environment

    before = dict(os.environ)
    try:
        prepare_environment()
        return dict(os.environ)
    except NoJava as missing:
        raise NotMeasured(str(missing)) from missing
    finally:
        os.environ.clear()
        os.environ.update(before)


def run_job(python: str, server: Server, kind: str, repeats: int, settings: dict[str, str]) -> list[Figures]:
    """Rows per second of each kind of query, per repeat."""
    job = {"format": kind, "bootstrap": server.address, "repeats": repeats, "settings": settings}
    environment = ottla_environment() if kind == "ottla" else plain_environment(python)
    done = subprocess.run([python, str(JOB), json.dumps(job)], capture_output=True, text=True, env=environment, timeout=600)
    if done.returncode:
        raise NotMeasured(f"the Spark job on {server.name} failed: {last_lines(done.stderr)}")
    return [dict(figures) for figures in json.loads(done.stdout.splitlines()[-1])]


def last_lines(text: str, count: int = 3) -> str:
    return " / ".join(text.strip().splitlines()[-count:])[:400]


def measure(server: Server, repeats: int) -> Sequence[Figures]:
    """Raises `NotMeasured`."""
    if server.name == "Ottla":
        python, kind, settings = sys.executable, "ottla", dict[str, str]()
    else:
        jars = ",".join(map(str, connector_jars()))
        python, kind, settings = connector_python(), "kafka", {"spark.jars": jars}
    fill(server)
    return run_job(python, server, kind, repeats, settings)
