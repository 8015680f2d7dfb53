"""One Spark session that reads and writes through one format; run by `bench.spark` in the environment that fits the format.

Takes its job as JSON, prints a JSON list of figures as its last line. Knows neither Ottla nor the other modules of this package.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession


def session(settings: dict[str, str]) -> Any:
    builder = SparkSession.builder.master("local[2]").appName("bench")
    defaults = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2", "spark.driver.memory": "2g"}
    for name, value in {**defaults, **settings}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def reader(spark: Any, job: dict[str, Any], topic: str) -> Any:
    reading = spark.read.format(job["format"]).option("kafka.bootstrap.servers", job["bootstrap"])
    return reading.option("subscribe", topic).option("startingOffsets", "earliest").load()


def rows_per_s(rows: int, query: Callable[[], Any]) -> float:
    began = time.perf_counter()
    query()
    return rows / (time.perf_counter() - began)


def copy(spark: Any, job: dict[str, Any]) -> None:
    writing = reader(spark, job, "spark-100").select("key", "value").write.format(job["format"])
    writing.option("kafka.bootstrap.servers", job["bootstrap"]).option("topic", "spark-out").mode("append").save()


def once(spark: Any, job: dict[str, Any], rows: dict[str, int]) -> dict[str, float]:
    def noop() -> None:
        reader(spark, job, "spark-100").write.format("noop").mode("overwrite").save()

    return {
        "Spark read 100 B → count, rows/s": rows_per_s(rows["spark-100"], reader(spark, job, "spark-100").count),
        "Spark read 100 B → noop, rows/s": rows_per_s(rows["spark-100"], noop),
        "Spark read 1 KB → count, rows/s": rows_per_s(rows["spark-1000"], reader(spark, job, "spark-1000").count),
        "Spark topic → topic 100 B, rows/s": rows_per_s(rows["spark-100"], lambda: copy(spark, job)),
    }


def main() -> None:
    job = json.loads(sys.argv[1])
    spark = session(job["settings"])
    rows = {topic: reader(spark, job, topic).count() for topic in ("spark-100", "spark-1000")}
    copy(spark, job)
    print(json.dumps([once(spark, job, rows) for _ in range(job["repeats"])]))
    spark.stop()


if __name__ == "__main__":
    main()
