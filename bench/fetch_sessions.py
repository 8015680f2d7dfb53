"""What fetches of many idle partitions cost the broker, with a session (KIP-227) and without: `python -m bench.fetch_sessions`.

One client asks for a thousand partitions over a raw socket and waits a millisecond for records, as consumers wait half a second.
With a session it names all of them once. Told is the broker's processor time of one fetch: while nothing is written, and when a
record came into one partition before each fetch (which includes taking that record in). All ways take turns in one run.
"""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from typing import Any

from bench.apache_kafka import Unavailable
from bench.raw import batch, check, connect, produce_request, reply
from bench.report import machine, number
from bench.servers import Kafka, Ottla, Server, cpu_s
from ottla.wire.api.create_topics import CreateTopicsRequest
from ottla.wire.api.fetch import FetchRequest
from ottla.wire.framing import FrameHeader, decode_response, encode_request

RESULTS = Path(__file__).with_name("RESULTS-fetch-sessions.md")
TOPIC, PARTITIONS, VERSION = "idle", 1000, 12
MAX_WAIT_MS = 1
ROUNDS = 5
FETCHES = {False: 200, True: 1000}
"""With a session there are more in each round, for the processor's time is told in hundredths of a second."""

WANTED = 0.3
"""What a fetch with a session is to cost at most, of one without."""

FetchPartition = FetchRequest.FetchPartition


def ask(connection: socket.socket, key: int, version: int, body: Any) -> Any:
    connection.sendall(b"".join(bytes(part) for part in encode_request(FrameHeader(key, version, 1, "bench"), body)))
    return decode_response(key, version, reply(connection))[1]


class Consumer:
    """Reads all partitions from their beginning; into the first one come records, and it is read on from `position`."""

    def __init__(self, connection: socket.socket, *, with_session: bool) -> None:
        self._connection = connection
        self._session_id, self._epoch = 0, 0 if with_session else -1
        self._told = self.position = 0

    def fetch(self, end: int) -> None:
        """One fetch. `end` is where the records end that it answers."""
        named = range(PARTITIONS) if self._epoch <= 0 else range(int(self.position != self._told))
        offsets = [0 if n else self.position for n in named]
        parts = [FetchPartition(partition=n, fetch_offset=offset, partition_max_bytes=1 << 20) for n, offset in enumerate(offsets)]
        body = FetchRequest(
            max_wait_ms=MAX_WAIT_MS,
            min_bytes=1,
            session_id=self._session_id,
            session_epoch=self._epoch,
            topics=[FetchRequest.FetchTopic(topic=TOPIC, partitions=parts)] if parts else [],
        )
        response = ask(self._connection, 1, VERSION, body)
        if response.error_code:
            raise RuntimeError(f"the broker answered error {response.error_code}")
        self._told, self.position = self.position, end
        if self._epoch >= 0:
            self._session_id, self._epoch = response.session_id, self._epoch + 1


class Load:
    """Both consumers on one server, and how many records there are."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._connection = connect(server.address)
        topic = CreateTopicsRequest.CreatableTopic(name=TOPIC, num_partitions=PARTITIONS, replication_factor=1)
        made = ask(self._connection, 19, 7, CreateTopicsRequest(topics=[topic], timeout_ms=60_000)).topics[0]
        if made.error_code:
            raise RuntimeError(f"the broker answered error {made.error_code}")
        self._consumers = {kind: Consumer(connect(server.address), with_session=kind) for kind in (False, True)}
        self._record = produce_request(TOPIC, batch(bytes(100)), acks=1)
        self._count = 0
        self._cost_us: dict[tuple[bool, bool], list[float]] = {}

    def round(self, *, active: bool, with_session: bool, noted: bool = True) -> None:
        fetches, consumer = FETCHES[with_session], self._consumers[with_session]
        consumer.fetch(self._count)
        began = cpu_s(self._server)
        for _ in range(fetches):
            if active:
                self._connection.sendall(self._record)
                check(reply(self._connection), TOPIC)
                self._count += 1
            consumer.fetch(self._count)
        if noted:
            self._cost_us.setdefault((active, with_session), []).append((cpu_s(self._server) - began) / fetches * 1e6)

    def cost(self, *, active: bool, with_session: bool) -> float:
        """Microseconds of processor for one fetch, over all rounds."""
        costs = self._cost_us[active, with_session]
        return sum(costs) / len(costs)


def measure(server: Server) -> Load:
    load = Load(server)
    for number_of_round in range(ROUNDS + 1):  # the first one is to warm up
        for active in (False, True):
            for with_session in (False, True):
                load.round(active=active, with_session=with_session, noted=number_of_round > 0)
    return load


ROWS = {False: "nothing is written", True: "a record comes into one of them before each fetch"}


def line(active: bool, name: str, load: Load) -> str:
    plain, with_session = (load.cost(active=active, with_session=kind) for kind in (False, True))
    share = with_session / plain
    verdict = f"≤ {WANTED:g}: {'reached' if share <= WANTED else '**missed**'}" if name == Ottla.name else ""
    return f"| {ROWS[active]} | {name} | {number(plain)} | {number(with_session)} | {share:.2f} | {verdict} |"


def page(loads: dict[str, Load]) -> str:
    """The whole of the page of results."""
    lines = "\n".join(line(active, name, load) for active in ROWS for name, load in loads.items())
    return f"""# What `make bench-fetch-sessions` measured last

{machine()}. The broker's processor time of one fetch of {PARTITIONS} partitions, in µs, mean of
{ROUNDS} rounds; a fetch without records waits {MAX_WAIT_MS} ms for them. Figures differ from machine to machine and from
hour to hour: only the ratios of one run count.

| while | broker | without a session | with a session | ratio | to reach |
|---|---|---|---|---|---|
{lines}
"""


def main() -> int:
    loads = {}
    for make in (Ottla, Kafka):
        try:
            with make() as server:
                loads[server.name] = measure(server)
        except Unavailable as missing:
            print(f"Apache Kafka is left out: {missing}", file=sys.stderr)
    RESULTS.write_text(page(loads), encoding="utf-8")
    print(RESULTS.read_text(encoding="utf-8"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
