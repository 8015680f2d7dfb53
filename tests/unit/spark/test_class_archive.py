"""An archive of classes is used once an earlier session's Java has written all of it; another Java or PySpark has its own."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from ottla.spark.session import java_options

USED, WRITTEN = "SharedArchiveFile", "ArchiveClassesAtExit"


def java(home: Path, version: str, *, base: bool = True) -> Path:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    if base:
        (home / "lib" / "server").mkdir(parents=True)
        (home / "lib" / "server" / "classes.jsa").touch()
    return home


@pytest.fixture
def pyspark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "pyspark" / "jars").mkdir(parents=True)
    return tmp_path / "pyspark"


def asked(options: str) -> tuple[str, Path]:
    found = re.match(r"-XX:(\w+)=(\S+)", options)
    assert found is not None
    return found[1], Path(found[2])


def test_the_first_session_writes_and_the_next_ones_use_what_is_finished(tmp_path: Path, pyspark: Path) -> None:
    home = java(tmp_path / "java", "17.0.15")
    verb, draft = asked(java_options(home, pyspark))
    assert verb == WRITTEN
    draft.write_bytes(bytes(100))  # Java is at it: the head comes last
    assert asked(java_options(home, pyspark)) == (WRITTEN, draft)
    draft.write_bytes(b"\xa8\xab\x0b\xf0" + bytes(96))
    verb, archive = asked(java_options(home, pyspark))
    assert (verb, archive.read_bytes()[:1], draft.exists()) == (USED, b"\xa8", False)


def test_another_java_or_another_pyspark_begins_anew(tmp_path: Path, pyspark: Path) -> None:
    home, other = java(tmp_path / "java", "17.0.15"), java(tmp_path / "other", "17.0.16")
    names = [asked(java_options(each, pyspark))[1] for each in (home, other)]
    os.utime(pyspark / "jars", (1, 1))
    assert len({*names, asked(java_options(home, pyspark))[1]}) == 3


def test_what_a_killed_java_left_is_removed_after_an_hour(tmp_path: Path, pyspark: Path) -> None:
    home = java(tmp_path / "java", "21.0.1")
    left = asked(java_options(home, pyspark))[1].with_suffix(".1")
    left.write_bytes(b"")
    java_options(home, pyspark)
    assert left.exists()
    os.utime(left, (1, 1))
    java_options(home, pyspark)
    assert not left.exists()


@pytest.mark.parametrize(("version", "verb"), [("25", "AOTCacheOutput"), ("21.0.1", "")])
def test_a_java_without_an_archive_of_its_own_writes_a_whole_one_or_none(
    tmp_path: Path, pyspark: Path, version: str, verb: str
) -> None:
    options = java_options(java(tmp_path / "java", version, base=False), pyspark)
    assert (asked(options)[0] if options else "") == verb
