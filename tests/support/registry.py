"""A schema registry that tests play."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class PlayedRegistry(ThreadingHTTPServer):
    """A registry that stores schemas by subject, and the requests that it got."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), PlayedRequests)
        self.subjects: dict[str, dict[str, Any]] = {}
        self.asked: list[str] = []
        self.is_away = False
        self.url = f"http://127.0.0.1:{self.server_port}"


class PlayedRequests(BaseHTTPRequestHandler):
    server: PlayedRegistry

    def do_POST(self) -> None:
        _, _, subject, _ = self.path.split("/")
        given = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        stored = self.server.subjects.setdefault(subject, {**given, "id": len(self.server.subjects) + 1})
        self._answer({"id": stored["id"]})

    def do_GET(self) -> None:
        path = self.path.partition("?")[0].split("/")
        found = [one for subject, one in self.server.subjects.items() if subject == path[2] or str(one["id"]) == path[-1]]
        self._answer(found[0] if found else None)

    def _answer(self, found: object) -> None:
        self.server.asked.append(f"{self.command} {self.path}")
        if self.server.is_away:
            self.send_error(503)
            return
        body = json.dumps({"error_code": 40401} if found is None else found).encode()
        self.send_response(404 if found is None else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """Print nothing."""
