"""One Spark session that reads and writes through one format; run by `bench.spark` in the environment that fits the format.

Takes its job as JSON, prints a JSON list of figures as its last line. Knows neither Ottla nor the other modules of this package.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

from pyspark.sql import SparkSession

COLD_TRIGGERS, TRIGGERS = 15, 55
GUARANTEES = {
    "at least once": {"deliveryGuarantee": "at-least-once"},
    "exactly once": {"twoPhaseCommit": "false"},
    "exactly once, two-phase commit": {"twoPhaseCommit": "true"},
}


def session(settings: dict[str, str]) -> Any:
    builder = SparkSession.builder.master("local[2]").appName("bench")
    defaults = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2", "spark.driver.memory": "2g"}
    for name, value in {**defaults, **settings}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def reader(spark: Any, job: dict[str, Any], topic: str, **options: str) -> Any:
    reading = spark.read.format(job["format"]).option("kafka.bootstrap.servers", job["bootstrap"])
    return reading.option("subscribe", topic).option("startingOffsets", "earliest").options(**options).load()


def seconds(query: Callable[[], Any]) -> float:
    began = time.perf_counter()
    query()
    return time.perf_counter() - began


def copy(spark: Any, job: dict[str, Any], **options: str) -> None:
    writing = reader(spark, job, "spark-100").select("key", "value").write.format(job["format"]).options(**options)
    writing.option("kafka.bootstrap.servers", job["bootstrap"]).option("topic", "spark-out").mode("append").save()


def trigger_ms(spark: Any, job: dict[str, Any], sink: str = "noop", **options: str) -> float:
    """The median time of micro-batches of 20 rows, one at once after the other."""
    reading = spark.readStream.format(job["format"]).option("kafka.bootstrap.servers", job["bootstrap"])
    stream = (
        reading.option("subscribe", "spark-100").option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", "20").load()
    )
    with tempfile.TemporaryDirectory() as checkpoint:
        writing = stream.writeStream.format(sink).options(**options).option("checkpointLocation", checkpoint)
        query = writing.start()
        try:
            while len(query.recentProgress) < TRIGGERS and query.exception() is None:
                time.sleep(0.2)
            took = [each.durationMs["triggerExecution"] for each in query.recentProgress[COLD_TRIGGERS:TRIGGERS]]
        finally:
            query.stop()
    return float(median(took))


def guarantees(spark: Any, job: dict[str, Any], rows: int) -> dict[str, float]:
    """What each guarantee of Ottla's sink costs: of a batch job that can be started again, and of small micro-batches."""
    sink = {"kafka.bootstrap.servers": job["bootstrap"], "topic": "spark-out"}
    found = {}
    for name, options in GUARANTEES.items():
        own = options if "deliveryGuarantee" in options else {**options, "jobId": uuid.uuid4().hex}
        found[f"Spark topic → topic 100 B, {name}, rows/s"] = rows / seconds(partial(copy, spark, job, **own))
    for name, options in GUARANTEES.items():
        found[f"Spark trigger of 20 rows → topic, {name}, p50 ms"] = trigger_ms(spark, job, job["format"], **sink, **options)
    return found


def once(spark: Any, job: dict[str, Any], rows: dict[str, int]) -> dict[str, float]:
    def noop() -> None:
        reader(spark, job, "spark-100").write.format("noop").mode("overwrite").save()

    def count(topic: str, **options: str) -> float:
        return rows[topic] / seconds(reader(spark, job, topic, **options).count)

    found = {
        "Spark read 100 B → count, rows/s": count("spark-100"),
        "Spark read 100 B of 16 partitions → count, rows/s": count("spark-100-16"),
        "Spark read 100 B → noop, rows/s": rows["spark-100"] / seconds(noop),
        "Spark read 1 KB → count, rows/s": count("spark-1000"),
        "Spark topic → topic 100 B, rows/s": rows["spark-100"] / seconds(lambda: copy(spark, job)),
        "Spark trigger of 20 rows, p50 ms": trigger_ms(spark, job),
        "Spark count of 20 rows, s": seconds(reader(spark, job, "spark-few").count),
        "Spark limit(1), s": seconds(reader(spark, job, "spark-100").limit(1).collect),
    }
    if job.get("directory"):
        files = {"ottla.directory": job["directory"]}
        found["Spark read 100 B from files → count, rows/s"] = count("spark-100", **files)
        found["Spark read 1 KB from files → count, rows/s"] = count("spark-1000", **files)
        found["Spark read 100 B, column offset alone → count, rows/s"] = count("spark-100", columns="offset")
        found |= guarantees(spark, job, rows["spark-100"])
    return found


def main() -> None:
    job = json.loads(sys.argv[1])
    spark = session(job["settings"])
    rows = {topic: reader(spark, job, topic).count() for topic in ("spark-100", "spark-100-16", "spark-1000", "spark-few")}
    copy(spark, job)
    print(json.dumps([once(spark, job, rows) for _ in range(job["repeats"])]))
    spark.stop()


if __name__ == "__main__":
    main()
