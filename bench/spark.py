"""Spark reading and writing through Ottla's source and sink, and Spark's own JVM connector beside them, on the same broker.

Each runs in a process and, for the JVM connector, in an environment of its own (it goes with another PySpark): its jars have to be
in the cache. Says why it did not measure what it could not. `python -m bench.spark` measures this alone.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from bench import apache_kafka
from bench.loads import Figures, has_leaders
from bench.report import Results, table
from bench.servers import Ottla, Server

CONNECTOR_PYSPARK = "4.2.0"
CONNECTOR = f"JVM connector {CONNECTOR_PYSPARK}"
SAME_BROKER = (
    "The figures of Spark are all of Ottla's broker: the second column is Spark's own JVM connector, reading and writing there, in "
    "a session {session}. Where nothing else is said, Ottla's sink writes exactly once, the connector's at least once."
)
SAME_SESSION = "with the same settings, those of `ottla.spark.session.local()`"
PLAIN_SESSION = "with Spark's own settings, and Ottla's in one of `ottla.spark.session.local()`"
ROWS_100_B, ROWS_1_KB, ROWS_FEW = 2_000_000, 400_000, 20
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


def fill(server: Server, divide: int = 1) -> None:
    """The topics that Spark reads: keys of 16 bytes."""
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    admin = AdminClient({"bootstrap.servers": server.address})
    many, large = ROWS_100_B // divide, ROWS_1_KB // divide
    wanted = {
        "spark-100": (2, many, 100), "spark-100-16": (16, many, 100), "spark-1000": (2, large, 1000),
        "spark-few": (2, ROWS_FEW, 100), "spark-out": (2, 0, 0),
    }  # fmt: skip
    for topic, (partitions, count, size) in wanted.items():
        admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(30)
        while not has_leaders(admin, topic, partitions):
            pass
        producer = Producer({"bootstrap.servers": server.address, "linger.ms": 50, "queue.buffering.max.messages": 3_000_000})
        for number in range(count):
            producer.produce(topic, bytes(size), b"%016d" % number, partition=number % partitions)
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


def session_settings() -> dict[str, str]:
    """What `local()` gives its users, but for where it keeps Java's classes."""
    from ottla.spark.session import HERE, QUICK, quick_java_options

    return {**QUICK, **HERE, "spark.driver.extraJavaOptions": quick_java_options()}


def run_job(kind: str, server: Server, repeats: int, settings: dict[str, str]) -> list[Figures]:
    """What each kind of query did, per repeat, through the format `ottla` or `kafka`. Raises `NotMeasured`."""
    job: dict[str, object] = {"format": kind, "bootstrap": server.address, "repeats": repeats, "settings": settings}
    if kind == "ottla":
        python, environment = sys.executable, ottla_environment()
        job["directory"] = str(server.data_dir) if isinstance(server, Ottla) else ""
    else:
        python = connector_python()
        environment, settings["spark.jars"] = plain_environment(python), ",".join(map(str, connector_jars()))
    done = subprocess.run([python, str(JOB), json.dumps(job)], capture_output=True, text=True, env=environment, timeout=1800)
    if done.returncode:
        raise NotMeasured(f"the Spark job on {server.name} failed: {last_lines(done.stderr)}")
    return [dict(figures) for figures in json.loads(done.stdout.splitlines()[-1])]


def last_lines(text: str, count: int = 3) -> str:
    return " / ".join(text.strip().splitlines()[-count:])[:400]


def measure(results: Results, servers: list[Server], repeats: int, divide: int = 1, *, plain_peer: bool = False) -> None:
    """Ottla's source on the first server; beside it the JVM connector, or on the second one what another checkout makes of it.

    With `plain_peer` the connector's session has Spark's own settings: what people have who change nothing.
    """
    jobs = [("ottla", server, server.name) for server in servers if server.name.startswith("Ottla")]
    if results.has_peer:
        jobs.append(("kafka", servers[0], results.servers[-1]))
        results.notes.append(SAME_BROKER.format(session=PLAIN_SESSION if plain_peer else SAME_SESSION))
    for server in {id(server): server for _, server, _ in jobs}.values():
        fill(server, divide)
    for kind, server, name in jobs:
        try:
            settings = {} if kind == "kafka" and plain_peer else session_settings()
            for figures in run_job(kind, server, repeats, settings):
                results.add(name, figures)
        except NotMeasured as missing:
            results.notes.append(f"Spark's format {kind!r} on {server.name} was not measured: {missing}.")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.spark", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="how often each query runs (default 3)")
    parser.add_argument("--divide", type=int, default=1, metavar="N", help="make every topic N times smaller")
    parser.add_argument("--plain-peer", action="store_true", help="give the connector's session Spark's own settings")
    wanted = parser.parse_args()
    with Ottla() as server:
        results = Results([server.name, CONNECTOR])
        measure(results, [server], wanted.rounds, wanted.divide, plain_peer=wanted.plain_peer)
    print(table(results), *results.notes, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
