"""Spark's own processes on this machine: a standalone cluster whose executors have no Ottla, with Spark Connect before it."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from bench.apache_kafka import free_port
from ottla.spark.java import java_home

ROOT = Path(__file__).parents[2]
LONG_S = 240.0
_BARE_PYTHON = """#!/bin/sh
PYTHONPATH="$PYTHONPATH:{packages}" exec "{python}" -S "$@"
"""
"""A Python that finds installed packages, but none that is installed as a link to its sources, such as Ottla in a checkout."""


def wait_for(true: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + LONG_S
    while not true():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


class StandaloneCluster:
    """A context manager: a master, two workers with one core each, and a Spark Connect server that is their cluster's driver."""

    def __init__(self, home: Path, settings: Mapping[str, str]) -> None:
        self._home = home
        self._settings = settings
        self._stack = ExitStack()
        self._environment = {
            name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYSPARK", "OTTLA_"))
        }
        self._environment |= {"JAVA_HOME": str(java_home()), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_NO_DAEMONIZE": "1"}
        self.bare_python = home / "bare-python"
        self.remote = f"sc://127.0.0.1:{free_port()}"

    def __enter__(self) -> Self:
        with self._stack:
            self.bare_python.write_text(_BARE_PYTHON.format(packages=sysconfig.get_path("purelib"), python=sys.executable))
            self.bare_python.chmod(0o755)
            port = free_port()
            self._spark_class("master", "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(port))
            self._wait_for("master", "I have been elected leader")
            for index in range(2):
                name, work = f"worker-{index}", str(self._home / f"work-{index}")
                own = ["--host", "127.0.0.1", "--cores", "1", "--memory", "1g", "--work-dir", work, f"spark://127.0.0.1:{port}"]
                self._spark_class(name, "org.apache.spark.deploy.worker.Worker", *own)
            self._start_connect(f"spark://127.0.0.1:{port}")
            for index in range(2):
                self._wait_for(f"worker-{index}", "Successfully registered with master")
            self._wait_for("connect", "Spark Connect server started")
            self._stack = self._stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stack.close()

    def _start_connect(self, master: str) -> None:
        settings = {
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": self.remote.rpartition(":")[2],
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.executor.memory": "512m",
            "spark.ui.enabled": "false",
            "spark.sql.warehouse.dir": str(self._home / "warehouse"),
            **self._settings,
        }
        words = ["org.apache.spark.deploy.SparkSubmit", "--master", master]
        words += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
        for name, value in settings.items():
            words += ["--conf", f"{name}={value}"]
        # The driver has Ottla: its Python makes the plan.
        self._spark_class("connect", *words, "spark-internal", PYTHONPATH=f"{ROOT / 'src'}", PYSPARK_PYTHON=str(self.bare_python))

    def _spark_class(self, name: str, *words: str, **environment: str) -> None:
        program = Path(sysconfig.get_path("purelib")) / "pyspark" / "bin" / "spark-class"
        with self._log(name).open("wb") as log:
            ports = ["--webui-port", "0"] if name != "connect" else []
            started = subprocess.Popen(
                [program, words[0], *ports, *words[1:]],
                env=self._environment | environment,
                cwd=self._home,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self._stack.callback(_end, psutil.Process(started.pid), started)

    def _log(self, name: str) -> Path:
        return self._home / f"{name}.log"

    def _wait_for(self, name: str, line: str) -> None:
        wait_for(lambda: line in self._log(name).read_text(errors="replace"), f"{name} says {line}")

    def logs(self) -> str:
        """What everybody said, executors too."""
        files = [*self._home.glob("*.log"), *self._home.glob("work-*/*/*/stderr")]
        return "\n".join(f"== {file}\n{file.read_text(errors='replace')[-5000:]}" for file in files)


def _end(process: psutil.Process, started: subprocess.Popen[bytes]) -> None:
    """End a process and what it started: a worker's executors would outlive it."""
    try:
        family = [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        family = []
    for each in family:
        try:
            each.terminate()
        except psutil.NoSuchProcess:
            continue
    _, left = psutil.wait_procs(family, timeout=30)
    for each in left:
        each.kill()
    started.wait(30)
