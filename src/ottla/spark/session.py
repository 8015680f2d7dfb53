"""The preparation of a process for Spark: Spark finds Java, the right Python and Ottla, and starts quickly.

Spark puts its own `pyspark.zip` first on its workers' path. Imports from the zip file take six times as long as from the installed
package, because it has no byte code. Therefore the workers' Python is a small script that removes the zip file from the path.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.spark.java import cache_directory, java_home, version, write_script
from ottla.spark.output_modes import refuse_update
from ottla.spark.threads import serve_all_threads

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_WORKER = """#!/bin/sh
PYTHONPATH=$(printf %s "$PYTHONPATH" | tr : '\\n' | grep -v 'pyspark\\.zip$' | paste -s -d : -) exec "{python}" "$@"
"""

QUICK: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": str(os.cpu_count() or 2),
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}
"""Settings for one machine: no web page, as many shuffle partitions as cores, and Unix sockets in place of TCP.

Checkpoints use Hadoop's `FileSystem`, which starts four programs for each micro-batch on a local disk. Its `FileContext`, Spark's
default, starts twenty (readlink, chmod). Both write a temporary file and rename it.
"""
QUICK_JAVA = "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
"""Options of the Java that reads Arrow's rows. Spark checks for null and stays within a batch, so that Arrow's own checks are not
needed."""
COLLECTOR = "-XX:+UseParallelGC"
"""The garbage collector that takes the least processor time. Rows are garbage at once, and pauses do not matter."""
HERE: Mapping[str, str] = {
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
"""Further settings for a session that uses only this machine: no name servers, and no connections from outside."""
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_EXECUTORS_JAVA_OPTIONS = "spark.executor.extraJavaOptions"
_OUTSIDE_JAVA_OPTIONS = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")

WHOLE_SINCE = 25
_STALE_S = 3600.0
_QUIET = "-Xlog:disable -Xlog:all=error:stderr"


def java_options(home: Path, pyspark: Path) -> str:
    """Return options for the Java in `home`: with them, Spark's driver uses the archive, or writes it if there is none.

    Return no options if this Java cannot write archives. `pyspark` is the directory of the package, whose jars have the classes.
    """
    found = version(home / "bin" / "java") or 0
    has_base = (home / "lib" / "server" / "classes.jsa").exists()
    if not has_base and found < WHOLE_SINCE:
        return ""
    made_from = home, found, _stamp(home / "bin" / "java"), pyspark, _stamp(pyspark / "jars")
    archive = cache_directory() / f"classes-{hashlib.sha256(repr(made_from).encode()).hexdigest()[:12]}.jsa"
    use, write = ("SharedArchiveFile", "ArchiveClassesAtExit") if has_base else ("AOTCache", "AOTCacheOutput")
    if _there(archive):
        return f"-XX:{use}={archive} {_QUIET}"
    archive.parent.mkdir(parents=True, exist_ok=True)
    return f"-XX:{write}={archive}.{os.getpid()} {_QUIET}"


def _stamp(path: Path) -> int:
    """Return the time of the last modification of `path` in ns. The class archive is made from this file or directory."""
    return path.stat().st_mtime_ns


def _there(archive: Path) -> bool:
    """Return whether the class archive exists. If another process has finished writing it under a temporary name, rename it
    first.
    """
    for draft in archive.parent.glob(f"{archive.name}.*[0-9]"):
        with suppress(OSError):
            if _finished(draft):
                draft.replace(archive)
            elif time.time() - draft.stat().st_mtime > _STALE_S:
                draft.unlink()
    return archive.exists()


def _finished(draft: Path) -> bool:
    """Return whether the class archive `draft` is complete. Java writes the first bytes of an archive last."""
    with draft.open("rb") as file:
        return file.read(4) not in (b"", bytes(4))


def worker_python() -> Path:
    """Return a Python for Spark's workers. It is this Python, with the installed package before `pyspark.zip` on its path."""
    name = hashlib.sha256(sys.executable.encode()).hexdigest()[:12]
    return write_script(cache_directory() / f"python-{name}", _WORKER.format(python=sys.executable))


def prepare_environment() -> None:
    """Set JAVA_HOME, PYSPARK_PYTHON and PYTHONPATH for the Spark that this process will start. Raises `NoJava`.

    Variables that are set already are kept. From now on, every thread of this process can write with `ottla`.
    """
    serve_all_threads()
    refuse_update()
    os.environ["JAVA_HOME"] = str(java_home())
    os.environ.setdefault("PYSPARK_PYTHON", str(worker_python()))
    # Spark plans in workers, too. If their program is the same, planning and tasks share one pool of workers.
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", os.environ["PYSPARK_PYTHON"])
    source = str(Path(__file__).parents[2])
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if source not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join([source, *filter(None, paths)])


def local(master: str = "local[*]", settings: Mapping[str, str] | None = None, *, keep_classes: bool = True) -> SparkSession:
    """Return a session on this machine that starts in half the time of Spark's own.

    `master` is `local[N]` or `local-cluster[workers,cores,memory_mb]`. Entries of `settings` replace the settings made here. With
    `keep_classes`, the first session's Java writes a file of its classes (some 160 MB, in the user's cache) when its process ends.
    Later sessions load the file. If this process has a session already, return that session. Raises `NoJava`.
    """
    prepare_environment()
    from pyspark.sql import SparkSession

    chosen = {**QUICK, **HERE, **(settings or {})}
    if cluster := re.fullmatch(r"local-cluster\[.*,\s*(\d+)\s*\]", master):
        chosen.setdefault("spark.executorEnv.PYTHONPATH", os.environ["PYTHONPATH"])
        chosen.setdefault("spark.executor.memory", f"{cluster[1]}m")  # Spark's default can exceed the memory of a worker
        chosen[_EXECUTORS_JAVA_OPTIONS] = quick_java_options(chosen.get(_EXECUTORS_JAVA_OPTIONS, ""))
    chosen[_JAVA_OPTIONS] = quick_java_options(chosen.get(_JAVA_OPTIONS, ""))
    if keep_classes:
        chosen[_JAVA_OPTIONS] = f"{java_options(Path(os.environ['JAVA_HOME']), _pyspark())} {chosen[_JAVA_OPTIONS]}".strip()
    builder = SparkSession.builder.master(master)
    for name, value in chosen.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def quick_java_options(own: str = "") -> str:
    """Return Java's options for Spark. The user's own options come last, so that they have priority.

    If they choose a garbage collector, `COLLECTOR` is left out, because Java refuses two.
    """
    said = " ".join([own, *(os.environ.get(name, "") for name in _OUTSIDE_JAVA_OPTIONS)])
    has_collector = re.search(r"-XX:\+Use\w*GC\b", said) is not None
    return " ".join(filter(None, [QUICK_JAVA, "" if has_collector else COLLECTOR, own]))


def _pyspark() -> Path:
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("PySpark is absent: pip install 'ottla[spark]'.")
    return Path(spec.origin).parent
