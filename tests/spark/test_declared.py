"""The example of declared pipelines runs as `spark-pipelines run` does, and makes what it should."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.spark.java import NoJava, java_home

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_declared_pipeline_reads_topics_and_writes_to_one() -> None:
    for name in ("pyspark", "grpc", "yaml"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is absent: pip install 'ottla[spark]' 'pyspark[pipelines]'")
    try:
        java_home()
    except NoJava as missing:
        pytest.skip(str(missing))
    run = subprocess.run([sys.executable, "-m", "examples.declared"], cwd=ROOT, capture_output=True, text=True, timeout=560)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "As it should be." in run.stdout
