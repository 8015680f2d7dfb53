"""Prepares a process to start Spark: Spark finds Java, the right Python and Ottla, and starts quickly.

Spark puts its own `pyspark.zip` first on its workers' path. Importing from it takes six times as long as from the installed
package, because it holds no byte code; so the workers' Python is a small script that removes it from the path.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from ottla.spark.java import cache_directory, java_home, write_script

_WORKER = """#!/bin/sh
PYTHONPATH=$(printf %s "$PYTHONPATH" | tr : '\\n' | grep -v 'pyspark\\.zip$' | paste -s -d : -) exec "{python}" "$@"
"""

QUICK: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": str(os.cpu_count() or 2),
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
"""Settings that suit one machine: no web page, as many shuffle partitions as cores, sockets without TCP."""


def worker_python() -> Path:
    """A Python for Spark's workers: this one, without `pyspark.zip` before the installed package."""
    name = hashlib.sha256(sys.executable.encode()).hexdigest()[:12]
    return write_script(cache_directory() / f"python-{name}", _WORKER.format(python=sys.executable))


def prepare_environment() -> None:
    """Set JAVA_HOME, PYSPARK_PYTHON and PYTHONPATH for the Spark that this process starts. Raises `NoJava`.

    Pythons that are set already are kept.
    """
    os.environ["JAVA_HOME"] = str(java_home())
    os.environ.setdefault("PYSPARK_PYTHON", str(worker_python()))
    # Planning, too, runs in workers, started with this one: the same program for both means one pool of them.
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", os.environ["PYSPARK_PYTHON"])
    source = str(Path(__file__).parents[2])
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if source not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join([source, *filter(None, paths)])
