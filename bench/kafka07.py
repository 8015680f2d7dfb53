"""How fast clients of Kafka 0.7 are served: `make bench-07`, or `python -m bench.kafka07 [--messages N] [--rounds N]`.

One broker has a listener for today's clients and one of release 0.7. Over raw sockets a client of 0.7 produces ready-made requests
of messages of 100 bytes, and reads topics from one end to the other, a megabyte at a time, as its consumers did: one that it wrote
itself, and one that a client of today wrote, which a client of 0.7 then asks for the first time. What is read is compared byte by
byte. Told is what the clock says, with the client on the same cores, and what the broker's processor takes. Nothing stands beside:
Kafka 0.7 is on no registry.
"""

from __future__ import annotations

import argparse
import socket
import struct
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from bench.paced import ask
from bench.raw import connect, pipelined
from bench.report import machine, number
from bench.servers import Ottla, Server, cpu_s
from ottla.kafka07.records.messages import message_set
from ottla.kafka07.wire import FetchRequest07, OffsetsRequest07, ProduceRequest07, encode_request
from ottla.wire.api.create_topics import CreateTopicsRequest

RESULTS = Path(__file__).with_name("RESULTS-kafka07.md")
PAYLOAD = bytes(100)
MESSAGE = message_set([PAYLOAD])
IN_A_SET = 200
IN_A_BATCH = 150
"""Records of 100 bytes in 16 KB, the batch.size of today's producers."""

CREATE_TOPICS = 19
MAX_BYTES = 1 << 20
LATEST = -1
WRITTEN_NOW, WRITTEN_THEN = "now", "then"
PRODUCED = "messages of 100 B produced in sets of 200, messages/s"
READ_THEN = "a topic that 0.7 wrote is read, MB/s"
READ_NOW = "a topic that a client of today wrote, 16 KB a batch, is read, MB/s"
READ_FIRST = "the same for the first time, MB/s"
WANTED = {PRODUCED: 200_000, READ_THEN: 100, READ_NOW: 40}


class Measured:
    """Rates of all rounds: by the clock, and by the broker's processor time."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.by_clock: dict[str, list[float]] = {}
        self.by_processor: dict[str, list[float]] = {}

    @contextmanager
    def noted(self, name: str, amount: float) -> Iterator[None]:
        """What goes on inside is `amount` of something."""
        processor, began = cpu_s(self._server), time.perf_counter()
        yield
        self.by_clock.setdefault(name, []).append(amount / (time.perf_counter() - began))
        self.by_processor.setdefault(name, []).append(amount / max(cpu_s(self._server) - processor, 0.01))


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


ROOM = memoryview(bytearray(MAX_BYTES + 64))
"""Each answer comes into the same room: fresh memory would take as long as the rest of what the client does."""


def take(connection: socket.socket, size: int) -> memoryview:
    """Exactly so many bytes, which are valid until the next ones."""
    view, got = ROOM[:size], 0
    while got < size:
        read = connection.recv_into(view[got:])
        if not read:
            raise EOFError("the broker closed the connection")
        got += read
    return view


def answer(connection: socket.socket) -> memoryview:
    """One response, after its error code. Raises RuntimeError unless that is 0."""
    (size,) = struct.unpack(">i", take(connection, 4))
    frame = take(connection, size)
    (code,) = struct.unpack_from(">h", frame)
    if code:
        raise RuntimeError(f"the broker answered error {code} of Kafka 0.7")
    return frame[2:]


def latest(connection: socket.socket, topic: str) -> int:
    """Where the topic ends; this waits for all that was produced before."""
    connection.sendall(framed(encode_request(OffsetsRequest07(topic, 0, LATEST, 1))))
    (end,) = struct.unpack_from(">q", answer(connection), 4)
    return int(end)


def produce(connection: socket.socket, topic: str, sets: int) -> None:
    """Send ready-made requests; nothing answers them, so the end of the topic is asked for behind them."""
    request = framed(encode_request(ProduceRequest07(topic, 0, MESSAGE * IN_A_SET)))
    before = latest(connection, topic)
    for _ in range(sets):
        connection.sendall(request)
    if latest(connection, topic) - before != sets * IN_A_SET * len(MESSAGE):
        raise RuntimeError("the broker did not store what was produced")


def write_now(address: str, topic: str, messages: int) -> int:
    """Write a new topic as a client of today does; how many bytes that is for clients of 0.7."""
    made = CreateTopicsRequest.CreatableTopic(name=topic, num_partitions=1, replication_factor=1)
    (created,) = ask(address, CREATE_TOPICS, 5, CreateTopicsRequest(topics=[made], timeout_ms=60_000)).topics
    if created.error_code:
        raise RuntimeError(f"the broker answered error {created.error_code}")
    batches = messages // IN_A_BATCH
    pipelined(address, topic, batches - 1, 5, IN_A_BATCH)  # and one that goes before
    return batches * IN_A_BATCH * len(MESSAGE)


def read(connection: socket.socket, topic: str, end: int) -> None:
    """Read from the beginning, and compare each byte."""
    expected = MESSAGE * (MAX_BYTES // len(MESSAGE) + 1)
    position = 0
    while position < end:
        connection.sendall(framed(encode_request(FetchRequest07(topic, 0, position, MAX_BYTES))))
        data = answer(connection)
        if not len(data) or not expected.startswith(data):
            raise RuntimeError(f"the broker gave other bytes than were written, at {position}")
        position += len(data) - len(data) % len(MESSAGE)


def measure(server: Server, address: str, messages: int, rounds: int) -> Measured:
    """All rounds; each has topics of its own."""
    measured = Measured(server)
    size = messages * len(MESSAGE)
    with connect(address) as connection:
        for index in range(rounds):
            then, now = f"{WRITTEN_THEN}-{index}", f"{WRITTEN_NOW}-{index}"
            produce(connection, then, 1)
            with measured.noted(PRODUCED, messages):
                produce(connection, then, messages // IN_A_SET)
            with measured.noted(READ_THEN, size / 1e6):
                read(connection, then, size)
            end = write_now(server.address, now, messages)
            for name in (READ_FIRST, READ_NOW):
                with measured.noted(name, end / 1e6):
                    read(connection, now, end)
    return measured


def line(name: str, measured: Measured) -> str:
    by_clock, by_processor = median(measured.by_clock[name]), median(measured.by_processor[name])
    wanted = WANTED.get(name)
    verdict = "" if wanted is None else f"≥ {number(wanted)}: {'reached' if by_clock >= wanted else '**missed**'}"
    return f"| {name} | {number(by_clock)} | {number(by_processor)} | {verdict} |"


def page(measured: Measured, messages: int, rounds: int) -> str:
    """The whole of the page of results."""
    lines = "\n".join(line(name, measured) for name in (PRODUCED, READ_THEN, READ_FIRST, READ_NOW))
    fetched = f"{number(messages)} messages of 100 bytes in each topic, fetched {MAX_BYTES >> 20} MiB at a time"
    return f"""# What `make bench-07` measured last

{machine()}. A client of Kafka 0.7 over raw sockets, on the same cores
as the broker: {fetched}, median of {rounds} rounds.
Figures differ from machine to machine and from hour to hour.

| what | by the clock | by a second of the broker's processor | to reach, by the clock |
|---|---|---|---|
{lines}

For a batch that a client of today wrote, its messages are made from its records while they are fetched. The first one of
Kafka 0.7 who asks for a topic also has it measured: where its messages stand is kept beside the log from then on.
"""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.kafka07", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--messages", type=int, default=1_500_000, metavar="N", help="messages in each topic (1 500 000)")
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="how often each figure is taken (5)")
    chosen = parser.parse_args()
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    with Ottla(arguments=("--listen", f"{address},release=0.7")) as server:
        measured = measure(server, address, chosen.messages // 600 * 600, chosen.rounds)
    RESULTS.write_text(page(measured, chosen.messages, chosen.rounds), encoding="utf-8")
    print(RESULTS.read_text(encoding="utf-8"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
