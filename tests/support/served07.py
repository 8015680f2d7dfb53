"""Bytes of logs of Kafka 0.7 served as its brokers served them, for what no broker of Ottla has: damage, another log, logs that end
before those of yesterday.

Real brokers of 0.7 are nowhere to be had. What is in a log is up to the test.
"""

from __future__ import annotations

import contextlib
import socketserver
import struct
import threading
import time
from collections.abc import Iterator

from ottla.kafka07 import wire as kafka07


class Log07:
    """A partition: its bytes, and where they begin. What is in the `gap` is refused, as a broker of Ottla does."""

    def __init__(self, data: bytes = b"", start: int = 0) -> None:
        self.data, self.start = bytearray(data), start
        self.gap = range(0)

    @property
    def end(self) -> int:
        return self.start + len(self.data)


class Broker07:
    """A broker's logs, by topic and partition; what it does not have is refused as a partition that it has not."""

    def __init__(self) -> None:
        self.logs: dict[tuple[str, int], Log07] = {}
        self.address = ""
        self.pause_s = 0.0
        self.fetches = 0

    def answer(self, request: kafka07.Request) -> kafka07.Response:
        if isinstance(request, kafka07.FetchRequest07):
            return self._fetched(request)
        if isinstance(request, kafka07.MultiFetchRequest07):
            time.sleep(self.pause_s)
            return kafka07.MultiFetchResponse07(0, [self._fetched(each) for each in request.fetches])
        assert isinstance(request, kafka07.OffsetsRequest07), "nobody writes here"
        log = self.logs[request.topic, request.partition]
        return kafka07.OffsetsResponse07(0, [log.end if request.time == -1 else log.start])

    def _fetched(self, request: kafka07.FetchRequest07) -> kafka07.FetchResponse07:
        self.fetches += 1
        log = self.logs.get((request.topic, request.partition))
        if log is None:
            return kafka07.FetchResponse07(kafka07.WRONG_PARTITION, b"")
        if not log.start <= request.offset <= log.end or request.offset in log.gap:
            return kafka07.FetchResponse07(kafka07.OFFSET_OUT_OF_RANGE, b"")
        at = request.offset - log.start
        return kafka07.FetchResponse07(kafka07.NONE, bytes(log.data[at : at + request.max_bytes]))


@contextlib.contextmanager
def served() -> Iterator[Broker07]:
    """A broker without logs, on a free port."""
    broker = Broker07()

    class Connection(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            while head := self.rfile.read(4):
                (size,) = struct.unpack(">i", head)
                body = kafka07.encode_response(broker.answer(kafka07.decode_request(self.rfile.read(size))))
                self.wfile.write(struct.pack(">i", len(body)) + body)

        def finish(self) -> None:
            with contextlib.suppress(OSError):
                super().finish()

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        allow_reuse_address = True

        def handle_error(self, request: object, client_address: object) -> None:
            """Whoever was killed hung up."""

    with Server(("127.0.0.1", 0), Connection) as server:
        broker.address = f"127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield broker
        finally:
            server.shutdown()
            thread.join()
