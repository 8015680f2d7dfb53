"""The proxies through which sarama's tests reach their brokers, and which they cut: one program with five listeners."""

from __future__ import annotations

import json
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType

from bench.apache_kafka import free_port
from tests.suites.suite import NotHere, is_free

START_S = 20


class Toxiproxy:
    """Five proxies, which lead to the brokers at `address` in turn: to a lone one all of them.

    Entering starts them, and gives the environment that tells of them.
    """

    MODULE = "github.com/Shopify/toxiproxy/v2/cmd/server"
    VERSION = "v2.5.0"
    PORTS = range(29091, 29096)

    def __init__(self, program: Path, address: str) -> None:
        self._program = program
        self._brokers = address.split(",")
        self._url = f"http://127.0.0.1:{free_port()}"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> dict[str, str]:
        """Raises `NotHere` where something else listens on one of its ports."""
        for port_used in filter(lambda port: not is_free(port), self.PORTS):
            raise NotHere(f"its tests reach brokers at port {port_used}, which is in use: stop what uses it.")
        port = self._url.rpartition(":")[2]
        command = [str(self._program), "-host", "127.0.0.1", "-port", port]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            self._wait()
            for number, listening in enumerate(self.PORTS, 1):
                upstream = self._brokers[(number - 1) % len(self._brokers)]
                proxy = {"name": f"kafka{number}", "listen": f"127.0.0.1:{listening}", "upstream": upstream, "enabled": True}
                self._ask("/proxies", proxy)
        except BaseException:
            self._stop()
            raise
        return {"TOXIPROXY_ADDR": self._url}

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stop()

    def _wait(self) -> None:
        deadline = time.monotonic() + START_S
        while True:
            try:
                self._ask("/version")
                return
            except urllib.error.URLError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def _ask(self, path: str, body: dict[str, object] | None = None) -> None:
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(urllib.request.Request(self._url + path, data), timeout=5) as answer:
            answer.read()

    def _stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(10)
            self._process = None
