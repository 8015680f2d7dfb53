"""What executors get holds all that they need and nothing that a build left."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from ottla.records import kernel
from ottla.spark.executor_archive import pack


@pytest.mark.slow
def test_the_archive_alone_is_enough_for_a_python_without_ottla(tmp_path: Path) -> None:
    with tarfile.open(pack(tmp_path / "ottla.tar.gz")) as archive:
        names = archive.getnames()
        archive.extractall(tmp_path / "packed", filter="data")
    assert not [name for name in names if "__pycache__" in name or name.endswith((".c", ".pxd"))]
    says = "import ottla.records.batches.columns, pyspark_ottla as found, sys; print(found.__file__, ottla.records.kernel.COMPILED)"
    code = f"import sys, types; sys.modules['ottla.spark.source'] = types.SimpleNamespace(OttlaDataSource=None); {says}"
    words = [sys.executable, "-S", "-E", "-c", f"import sys; sys.path.insert(0, {str(tmp_path / 'packed')!r}); {code}"]
    said = subprocess.run(words, capture_output=True, text=True, check=False)
    assert said.stdout.split() == [str(tmp_path / "packed" / "pyspark_ottla" / "__init__.py"), str(kernel.COMPILED)], said.stderr


def test_a_name_by_which_spark_would_not_unpack_it_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"call it ottla.tar.gz, not ottla.tar"):
        pack(tmp_path / "ottla.tar")
