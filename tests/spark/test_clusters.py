"""Executors on which Ottla is not installed get it packed, and Spark Connect's clients need none of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.spark.executor_archive import pack
from ottla.spark.java import NoJava, java_home
from tests.spark.clusters import StandaloneCluster
from tests.spark.conftest import Topics

pytest.importorskip("pyspark", reason="PySpark is absent: pip install 'ottla[spark]'")
pytest.importorskip("grpc", reason="the client of Spark Connect is absent: pip install 'pyspark[connect]'")

CLIENT = """
import sys
from pyspark.sql import SparkSession

remote, servers, source, target = sys.argv[1:]
spark = SparkSession.builder.remote(remote).getOrCreate()
rows = spark.range(0, 2000, 1, 2).selectExpr("cast(id as string) as key", "cast(id as string) as value")
rows.write.format("ottla").option("kafka.bootstrap.servers", servers).option("topic", source).mode("append").save()
read = spark.readStream.format("ottla").option("kafka.bootstrap.servers", servers).option("subscribe", source)
flow = read.option("startingOffsets", "earliest").load().writeStream.format("ottla").option("kafka.bootstrap.servers", servers)
query = flow.option("topic", target).option("checkpointLocation", sys.argv[0] + ".checkpoint").trigger(availableNow=True).start()
assert query.awaitTermination(200) and query.exception() is None, query.exception()
back = spark.read.format("ottla").option("kafka.bootstrap.servers", servers).option("subscribe", target).load()
found = back.selectExpr("count(*)", "count(distinct key)", "count(distinct partition)").first()
assert tuple(found) == (2000, 2000, 2), found

spark.stop()
"""


@pytest.mark.full(seconds=40)
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_standalone_cluster_behind_spark_connect_reads_and_writes_with_ottla_packed(topics: Topics, tmp_path: Path) -> None:
    try:
        java_home()
    except NoJava as missing:
        pytest.skip(str(missing))
    archive = pack(tmp_path / "ottla.tar.gz")
    settings = {"spark.archives": f"{archive}#ottla-packed", "spark.executorEnv.PYTHONPATH": "ottla-packed"}
    client = tmp_path / "client.py"
    client.write_text(CLIENT)
    words = [sys.executable, str(client)]
    with StandaloneCluster(tmp_path, settings) as cluster:
        arguments = [cluster.remote, topics.address, topics.make(2), topics.make(2)]
        environment = {name: value for name, value in os.environ.items() if name != "SPARK_REMOTE"}
        ran = subprocess.run(
            words + arguments, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=500, check=False
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr[-3000:] + cluster.logs()
        alone = [str(cluster.bare_python), "-c", "import ottla"]
        assert subprocess.run(alone, env={"PATH": os.environ["PATH"]}, capture_output=True, check=False).returncode == 1
    assert len(list(tmp_path.glob("work-*/*/*/ottla-packed/ottla/__init__.py"))) == 2
