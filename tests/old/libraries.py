"""Python libraries of long ago, each in a folder of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bench.apache_kafka import cache_dir


def library(project: str, version: str, *needs: str) -> Path:
    """A folder with this project and what it `needs` alone, installed on first use. Skips the test where it cannot be had."""
    folder = cache_dir() / "ottla-old-clients" / f"{project}-{version}"
    if not (folder / "complete").exists():
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder)]
        done = subprocess.run([*install, f"{project}=={version}", *needs], capture_output=True, text=True, timeout=120)
        if done.returncode:
            pytest.skip(f"{project} {version} cannot be installed: {done.stderr.strip()[-200:]}")
        (folder / "complete").touch()
    return folder
