"""An archive of Ottla for Spark's executors, which then need only PySpark, pyarrow and numpy.

`python -m ottla.spark.executor_archive ottla.tar.gz` writes an archive for `--archives` (`spark.archives`). Spark unpacks it beside
each executor, and `spark.executorEnv.PYTHONPATH` must name its folder. `--py-files` will not do, because Python cannot load
compiled modules from its zip files.
"""

from __future__ import annotations

import argparse
import importlib.util
import tarfile
from collections.abc import Sequence
from importlib.metadata import distribution
from pathlib import Path

PACKAGES = ("ottla", "pyspark_ottla")
NEEDED = ("cramjam", "crc32c")
"""The distributions that Ottla needs to read and write. Their metadata is packed too, because crc32c reads its own."""


def pack(target: Path) -> Path:
    """Write the archive, named `*.tar.gz` or `*.tgz`. Return its path.

    The archive is for machines with this operating system and this version of Python.
    """
    if not target.name.endswith((".tar.gz", ".tgz")):
        raise ValueError(f"Spark unpacks an archive by the end of its name: call it {target.stem}.tar.gz, not {target.name}.")
    with tarfile.open(target, "w:gz") as archive:
        for name in PACKAGES:
            archive.add(_directory(name), name, filter=_packed_member)
        for name in NEEDED:
            for file in distribution(name).files or ():
                if ".." not in file.parts and "__pycache__" not in file.parts:
                    archive.add(file.locate(), str(file), filter=_packed_member)
    return target


def _directory(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"There is no package {package} to pack: install Ottla with pip install 'ottla[spark]'.")
    return Path(spec.origin).parent


def _packed_member(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Return whether a file is packed. Byte code, C sources and Cython declarations are not."""
    if member.name.endswith(("__pycache__", ".pyi", ".pxd", ".c")):
        return None
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m ottla.spark.executor_archive", description="Pack Ottla for Spark's executors.")
    parser.add_argument("target", type=Path, help="the archive to write, such as ottla.tar.gz")
    target = pack(parser.parse_args(words).target)
    print(f"{target}: {target.stat().st_size // 1024} KB. Start the job with")
    print(f"  spark-submit --archives {target}#ottla-packed --conf spark.executorEnv.PYTHONPATH=ottla-packed JOB.py")


if __name__ == "__main__":
    main()
