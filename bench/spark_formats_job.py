"""One Spark session that reads typed columns through one source; run by `bench.spark_formats` in the environment that fits it.

Takes its job as JSON, prints seconds by query as JSON on its last line. Knows neither Ottla nor the other modules of this package.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession, functions

TYPED = "Spark read {} → typed columns, rows/s"


def session(settings: dict[str, str]) -> Any:
    builder = SparkSession.builder.master("local[2]").appName("bench")
    for name, value in {"spark.ui.enabled": "false", "spark.driver.memory": "2g", **settings}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def rows_of(spark: Any, job: dict[str, Any], topic: str, **options: str) -> Any:
    reading = spark.read.format(job["format"]).option("kafka.bootstrap.servers", job["bootstrap"]).options(**options)
    return reading.option("subscribe", topic).option("startingOffsets", "earliest").load()


def to_nowhere(frame: Any) -> Callable[[], None]:
    return lambda: frame.write.format("noop").mode("overwrite").save()


def typed(spark: Any, job: dict[str, Any], name: str) -> Any:
    options = {"valueFormat": name, "valueSchema": job["columns"], "columns": "value", "mode": "FAILFAST"}
    return rows_of(spark, job, f"flights-{name}", **options)


def writing(spark: Any, job: dict[str, Any], name: str) -> Callable[[], None]:
    frame = typed(spark, job, "json").write.format(job["format"]).option("kafka.bootstrap.servers", job["bootstrap"])
    return lambda: frame.option("topic", f"flights-{name}").option("valueFormat", name).mode("append").save()


def queries(spark: Any, job: dict[str, Any]) -> dict[str, Callable[[], None]]:
    plain = rows_of(spark, job, "flights-json")
    if job["format"] == "kafka":
        value = functions.from_json(functions.col("value").cast("string"), job["columns"])
        return {TYPED.format("JSON of 120 B"): to_nowhere(plain.select(value.alias("value")).select("value.*"))}
    names = {name: "JSON of 120 B" if name == "json" else name for name in job["formats"]}
    made = {TYPED.format(names[name]): to_nowhere(typed(spark, job, name).select("value.*")) for name in job["formats"]}
    value = functions.from_json(functions.col("value").cast("string"), job["columns"])
    made["Spark read JSON of 120 B → from_json, rows/s"] = to_nowhere(plain.select(value.alias("value")).select("value.*"))
    return made


def took_s(query: Callable[[], None]) -> float:
    began = time.perf_counter()
    query()
    return time.perf_counter() - began


def main() -> None:
    job = json.loads(sys.argv[1])
    spark = session(job["settings"])
    if job["format"] == "ottla":
        for name in job["formats"]:
            if name != "json":
                writing(spark, job, name)()
    wanted = queries(spark, job)
    found: dict[str, list[float]] = {name: [] for name in wanted}
    for _ in range(job["repeats"] + 1):
        for name, query in wanted.items():
            found[name].append(took_s(query))
    print(json.dumps({name: seconds[1:] for name, seconds in found.items()}))  # the first one warms Spark up
    spark.stop()


if __name__ == "__main__":
    main()
