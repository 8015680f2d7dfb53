"""A session made by `local()` works on executors of their own, and leaves its classes for the next one."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ottla.spark.java import NoJava, java_home
from ottla.spark.session import COLLECTOR, QUICK_JAVA, java_options, quick_java_options
from tests.spark.conftest import Topics

pytest.importorskip("pyspark", reason="PySpark is absent: pip install 'ottla[spark]'")

ROOT = Path(__file__).parents[2]
JOB = """
import sys
from ottla.spark.session import local

servers, topic = sys.argv[1:]
spark = local("local-cluster[2,1,512]", {"spark.sql.shuffle.partitions": "3"})
rows = spark.range(0, 1000, 1, 2).selectExpr("cast(id as string) as value")
rows.write.format("ottla").option("kafka.bootstrap.servers", servers).option("topic", topic).mode("append").save()
read = spark.read.format("ottla").option("kafka.bootstrap.servers", servers).option("subscribe", topic).load()
print("distinct", read.select("value").distinct().count())
print("settings", spark.conf.get("spark.sql.shuffle.partitions"), spark.conf.get("spark.ui.enabled"))
print("java", spark.conf.get("spark.driver.extraJavaOptions"))
print("executors", spark.conf.get("spark.executor.extraJavaOptions"))
spark.stop()
"""


@pytest.mark.full(seconds=40)
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_session_runs_on_a_cluster_in_small_and_leaves_its_classes(
    topics: Topics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    try:
        home = java_home()
    except NoJava as missing:
        pytest.skip(str(missing))
    pyspark = Path(sys.modules["pyspark"].__file__ or "").parent
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    job = tmp_path / "job.py"
    job.write_text(JOB)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])}
    words = [sys.executable, str(job), topics.address, topics.make(2)]
    ran = subprocess.run(words, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=400, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr[-3000:]
    assert "distinct 1000" in ran.stdout
    assert "settings 3 false" in ran.stdout
    assert f"executors {QUICK_JAVA} {COLLECTOR}" in ran.stdout
    if "java -XX:ArchiveClassesAtExit=" in ran.stdout:
        deadline = time.monotonic() + 180
        while "-XX:SharedArchiveFile=" not in java_options(home, pyspark):
            assert time.monotonic() < deadline, "Java has not finished its archive"
            time.sleep(0.2)


def test_a_collector_of_a_persons_own_takes_the_place_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS"):
        monkeypatch.delenv(name, raising=False)
    assert quick_java_options("-Xss4m") == f"{QUICK_JAVA} {COLLECTOR} -Xss4m"
    assert quick_java_options("-XX:+UseZGC -Xss4m") == f"{QUICK_JAVA} -XX:+UseZGC -Xss4m"
    monkeypatch.setenv("JDK_JAVA_OPTIONS", "-XX:+UseSerialGC")
    assert quick_java_options() == QUICK_JAVA


PROGRAM = """
import gc, sys
from ottla.spark import workers
workers.set_modules_aside()
print(gc.get_freeze_count() > 0)
sys.modules["__main__"].__spec__ = type("Spec", (), {"name": workers.DAEMON})
workers.set_modules_aside()
held = gc.get_freeze_count()
print(held > 0)
kept = [[] for _ in range(1000)]
workers.set_modules_aside()
print(gc.get_freeze_count() == held)
"""


def test_a_worker_of_spark_sets_aside_what_its_modules_hold_once_and_no_other_process_does() -> None:
    said = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=True).stdout
    assert said.split() == ["False", "True", "True"]
