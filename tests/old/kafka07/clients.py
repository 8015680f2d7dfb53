"""Clients of 0.6 and 0.7 as they were published, each in a folder of its own: for Python 2.7 and for Node.

Nobody has published those of other languages where package managers look, nor kafka-python's first ones.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from bench.apache_kafka import cache_dir

HERE = Path(__file__).parent
INSTALL_S = 600
RUN_S = 120
OLD_C = {"CFLAGS": "-w -fcommon"}
"""What C of 2012 needs of a compiler of today."""


@cache
def python2() -> str:
    """A Python 2.7. Skips the test where there is none."""
    roots = [Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"]
    found = [str(path) for root in roots for path in sorted(root.glob("2.7*/bin/python2.7"))]
    for name in filter(None, [shutil.which("python2.7"), *found]):
        if subprocess.run([name, "-m", "pip", "--version"], capture_output=True, check=False).returncode == 0:
            return name
    pytest.skip("no Python 2.7 with pip, which clients of 2013 need")


def installed(name: str, install: Callable[[Path], Sequence[str]]) -> Path:
    """The folder that a command installs into, run on first use. Skips the test where it fails."""
    folder = cache_dir() / "ottla-old-clients" / name
    if not (folder / "complete").exists():
        folder.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(install(folder), capture_output=True, text=True, timeout=INSTALL_S, env={**os.environ, **OLD_C})
        if done.returncode:
            pytest.skip(f"{name} cannot be installed: {done.stderr.strip()[-300:]}")
        (folder / "complete").touch()
    return folder


def for_python2(project: str, version: str, *needs: str, name: str = "") -> Path:
    """This project and what it `needs` alone, for Python 2.7."""
    pip = [python2(), "-m", "pip", "install", "--quiet", "--no-deps", "--disable-pip-version-check"]
    return installed(f"py27-{name or project}-{version}", lambda to: [*pip, "--target", str(to), f"{project}=={version}", *needs])


def for_node(project: str, version: str) -> Path:
    """This package and what it needs, without running what packages want run when they are installed: there is no C++ of 2013."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if not node or not npm:
        pytest.skip("node and npm are not installed")
    words = [npm, "install", "--silent", "--no-audit", "--no-fund", "--omit=optional", "--ignore-scripts", "--prefix"]
    return installed(f"npm-{project}-{version}", lambda folder: [*words, str(folder), f"{project}@{version}"]) / "node_modules"


class Client(NamedTuple):
    """A program that uses a client, and where that client is; both are found when the program is run."""

    program: str
    library: Callable[[], Path]

    def command(self) -> tuple[list[str], dict[str, str]]:
        """How to start the program, without its arguments, and the environment that it needs."""
        library = str(self.library())
        if self.program.endswith(".js"):
            return ["node", "--no-deprecation", str(HERE / "node" / self.program)], {**os.environ, "NODE_PATH": library}
        return [python2(), str(HERE / "python2" / self.program)], {**os.environ, "PYTHONPATH": library}

    def run(self, address: str, action: str, topic: str, count: int) -> dict[str, Any]:
        """What the program found. Fails the test when it fails, and shows what it said."""
        command, environment = self.command()
        words = [*command, *address.split(":"), action, topic, str(count)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=RUN_S, env=environment)
        assert done.returncode == 0, f"{self.program} {action} failed:\n{done.stderr[-4000:]}"
        found: dict[str, Any] = json.loads(done.stdout)
        return found


SAMSA = Client("samsa_2013.py2", lambda: for_python2("samsa", "0.3.11", "kazoo==2.8.0", "six==1.16.0"))
BROD = Client("brod_2013.py2", lambda: for_python2("brod", "0.4.3"))
ZK = ("zc.zk==0.5.2", "zc.thread==1.0.0", "zc-zookeeper-static==3.4.4")
BROD_IN_GROUPS = Client("brod_2013.py2", lambda: for_python2("brod", "0.4.3", *ZK, name="brod-in-groups"))
PYKAFKA = Client("pykafka_2011.py2", lambda: for_python2("pykafka", "0.1.3"))
KAFKA_JS = Client("kafka_2012.js", lambda: for_node("kafka", "0.2.3"))
PROZESS = Client("prozess_2014.js", lambda: for_node("prozess", "0.7.0"))
FRANZ = Client("franz_2013.js", lambda: for_node("franz-kafka", "0.7.5"))
