"""A driver to be killed: a query on a cluster of two executors, with speculation, that copies one topic into another.

    python -m tests.torture.spark_query SERVERS SOURCE TARGET CHECKPOINT STOP

Ends once the file STOP is there and all that the source holds is written.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

from ottla.spark.session import QUICK, prepare_environment

ROOT = Path(__file__).parents[2]
SETTINGS = {
    **QUICK,
    "spark.executorEnv.PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.3",
    "spark.speculation.minTaskRuntime": "50ms",
    "spark.task.maxFailures": "8",
    "spark.sql.shuffle.partitions": "3",
}


def main(servers: str, source: str, target: str, checkpoint: str, stop: str) -> int:
    """Run until all is written. The exit code is 1 where the query failed."""
    prepare_environment()
    from pyspark.sql import SparkSession

    builder: Any = SparkSession.builder.master("local-cluster[2,1,1024]")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    rows = spark.readStream.format("ottla").option("kafka.bootstrap.servers", servers).option("subscribe", source)
    rows = rows.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", "500").load().select("key", "value")
    writer = rows.repartition(3, "value").writeStream.format("ottla").option("kafka.bootstrap.servers", servers)
    query = writer.option("topic", target).option("checkpointLocation", checkpoint).start()
    print("started", flush=True)
    told = -1
    while query.isActive:
        progress = query.lastProgress
        if progress is not None and progress.batchId != told:
            told = progress.batchId
            print(f"batch {told} {progress.numInputRows} rows", flush=True)
        if Path(stop).exists():
            query.processAllAvailable()
            query.stop()
            print("done", flush=True)
            return 0
        time.sleep(0.05)
    print(f"failed {query.exception()}", flush=True)
    return 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
