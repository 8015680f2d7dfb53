"""The Spark job: reads topic `flights` as a stream, joins weather and airlines, and writes delays to topic `delays`.

Run as a process of its own, `python -m examples.flights.pipeline SERVERS CHECKPOINT`: it gets Spark ready, says so, waits for a
line on its input, and reports each micro-batch as a line of JSON. The result is a table in a topic: each micro-batch writes
every group anew under its key, and the last row of a key counts, as in a compacted topic.
"""

from __future__ import annotations

import json
import sys
import threading
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from ottla.pipelines.query_runner import follow
from ottla.spark.session import local

ROWS_PER_BATCH = 90_000
GROUP = "delays-of-flights"
"""Under which tools see how far the query is behind, such as `kafka-consumer-groups --describe`."""
FOR_A_SHORT_JOB = {
    "spark.app.name": "flights",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",  # compiling hot code thoroughly pays off after minutes only
}
FLIGHT = "year INT, month INT, day INT, hour INT, time_hour STRING, origin STRING, carrier STRING, dep_delay INT"
WEATHER = "origin STRING, time_hour STRING, wind_speed DOUBLE, visib DOUBLE, precip DOUBLE"
AIRLINE = "carrier STRING, name STRING"


def start_spark() -> SparkSession:
    spark = local("local[2]", FOR_A_SHORT_JOB, keep_classes=False)
    spark.range(1).write.format("noop").mode("overwrite").save()  # the first query loads what later ones need
    return spark


def values(servers: str, schema: str) -> dict[str, str]:
    """Options of the source for topics whose values are JSON of this shape."""
    return {"kafka.bootstrap.servers": servers, "valueFormat": "json", "valueSchema": schema, "columns": "value"}


def read_table(spark: SparkSession, servers: str, topic: str, schema: str) -> DataFrame:
    """A whole topic as it is now, for joins."""
    reader = spark.read.format("ottla").options(**values(servers, schema))
    return reader.option("subscribe", topic).load().select("value.*").cache()


def read_flights(spark: SparkSession, servers: str) -> DataFrame:
    reader = spark.readStream.format("ottla").options(**values(servers, FLIGHT), groupId=GROUP)
    reader = reader.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", ROWS_PER_BATCH)
    return reader.option("subscribe", "flights").load().select("value.*")


def groups_of_a_flight() -> Column:
    """A flight counts twice: for its hour at its airport, and for its carrier."""
    nothing = f.lit(None).cast("string")
    date = f.make_date("year", "month", "day").cast("string")
    hour = f.concat(date, f.lit("T"), f.lpad(f.col("hour").cast("string"), 2, "0"))
    by_hour = f.struct(f.lit("hour").alias("kind"), "origin", hour.alias("hour"), nothing.alias("carrier"), nothing.alias("name"))
    by_carrier = f.struct(f.lit("carrier").alias("kind"), nothing.alias("origin"), nothing.alias("hour"), "carrier", "name")
    return f.explode(f.array(by_hour, by_carrier)).alias("group")


def delays_of(flights: DataFrame, weather: DataFrame, airlines: DataFrame) -> DataFrame:
    delay, wet, hourly = f.col("dep_delay"), f.coalesce(f.col("precip") > 0, f.lit(False)), f.col("group.kind") == "hour"
    joined = flights.join(f.broadcast(weather), ["origin", "time_hour"], "left").join(f.broadcast(airlines), "carrier", "left")
    spread = joined.select(groups_of_a_flight(), delay, wet.alias("wet"), "wind_speed", "visib", "precip")
    return spread.groupBy("group").agg(
        f.count("*").alias("flights"),
        f.count(delay).alias("departed"),
        f.coalesce(f.sum(delay), f.lit(0)).alias("delay_minutes"),
        f.count_if(delay > 15).alias("late"),
        f.max(delay).alias("worst_minutes"),
        f.count_if(f.col("wet") & delay.isNotNull()).alias("wet_departed"),
        f.coalesce(f.sum(f.when(f.col("wet"), delay)), f.lit(0)).alias("wet_delay_minutes"),
        *(f.max(f.when(hourly, f.col(name))).alias(name) for name in ("wind_speed", "visib", "precip")),
    )


def as_messages(delays: DataFrame) -> DataFrame:
    """Key and value of a topic: the same group always has the same key, and so the same partition."""
    key = f.concat_ws(" ", "group.kind", "group.origin", "group.hour", "group.carrier")
    return delays.select(key.alias("key"), f.to_json(f.struct("group.*", *delays.columns[1:])).alias("value"))


def start_query(spark: SparkSession, servers: str, checkpoint: str) -> StreamingQuery:
    weather = read_table(spark, servers, "weather", WEATHER)
    airlines = read_table(spark, servers, "airlines", AIRLINE)
    messages = as_messages(delays_of(read_flights(spark, servers), weather, airlines))
    writer = messages.writeStream.format("ottla").option("kafka.bootstrap.servers", servers).option("topic", "delays")
    return writer.option("checkpointLocation", checkpoint).outputMode("complete").trigger(availableNow=True).start()


def say(event: str, **facts: Any) -> None:
    print(json.dumps({"event": event, **facts}), flush=True)


def report(query: StreamingQuery) -> None:
    """Say each micro-batch as it ends, until the query has read all that was there at its start."""
    follow(query, "delays", lambda step: say("batch", **step.as_row()), threading.Event())


def main() -> None:
    servers, checkpoint = sys.argv[1:]
    spark = start_spark()
    say("ready")
    if sys.stdin.readline():
        report(start_query(spark, servers, checkpoint))
        say("done")
    spark.stop()


if __name__ == "__main__":
    main()
