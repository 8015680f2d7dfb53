"""A pipeline by declarations: topic -> streaming table -> materialised view, the newest row of each key, and back into a topic.

Run by `spark-pipelines run` with the brokers in OTTLA_SERVERS; with a catalog in OTTLA_LAKE, changes become a table by auto-CDC,
too. Nothing is registered: Spark finds format "ottla" by itself.
"""

from __future__ import annotations

import os

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

spark = SparkSession.active()
SERVERS = {"kafka.bootstrap.servers": os.environ["OTTLA_SERVERS"]}
LAKE = os.environ.get("OTTLA_LAKE")
"""A catalog and database whose tables take MERGE, such as Iceberg's: changes are applied there as they come, by an auto-CDC flow.

PySpark alone has no such tables; the materialised view of carriers needs none.
"""
FLIGHT = {"valueFormat": "json", "valueSchema": "carrier STRING, origin STRING, delay INT", "mode": "DROPMALFORMED"}


@dp.table
def flights() -> DataFrame:
    """All flights, each once: a streaming table."""
    reader = spark.readStream.format("ottla").options(**SERVERS, **FLIGHT).option("startingOffsets", "earliest")
    return reader.option("subscribe", "flights").load().select("value.*", "partition", "offset")


@dp.materialized_view
def carriers() -> DataFrame:
    """The newest name of each carrier: topic `carriers` as a table, a record without a value deletes."""
    changes = spark.read.format("ottla").options(**SERVERS).option("subscribe", "carriers").load()
    newest = changes.groupBy("key").agg(f.max_by(f.struct("value"), "offset").alias("last"))
    return newest.where("last.value IS NOT NULL").selectExpr("cast(key AS STRING) AS carrier", "cast(last.value AS STRING) AS name")


@dp.materialized_view
def delays() -> DataFrame:
    """How late each carrier is."""
    late = spark.read.table("flights").groupBy("carrier").agg(f.count("*").alias("flights"), f.avg("delay").alias("mean_delay"))
    return late.join(spark.read.table("carriers"), "carrier")


if LAKE is not None:

    @dp.temporary_view
    def carrier_changes() -> DataFrame:
        """What was written into topic `carriers`; a record without a value deletes."""
        reader = spark.readStream.format("ottla").options(**SERVERS).option("startingOffsets", "earliest")
        changes = reader.option("subscribe", "carriers").load()
        return changes.selectExpr("cast(key AS STRING) AS carrier", "cast(value AS STRING) AS name", "offset")

    dp.create_streaming_table(f"{LAKE}.carrier_names")
    dp.create_auto_cdc_flow(
        target=f"{LAKE}.carrier_names",
        source="carrier_changes",
        keys=["carrier"],
        sequence_by="offset",
        apply_as_deletes="name IS NULL",
        except_column_list=["offset"],
        stored_as_scd_type=1,
    )

dp.create_sink("late_flights", "ottla", {**SERVERS, "topic": "late-flights"})


@dp.append_flow(target="late_flights")
def late() -> DataFrame:
    """Flights that are more than an hour late, back into a topic."""
    late = spark.readStream.table("flights").where("delay > 60")
    return late.select(f.col("carrier").alias("key"), f.to_json(f.struct("carrier", "origin", "delay")).alias("value"))
