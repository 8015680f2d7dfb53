"""One life of a broker under extreme requests: asked by several peers at once, stopped, started again on what they left, killed.

No exit but the one that is asked for, no traceback or error in its log, no UNKNOWN_SERVER_ERROR, no reply that cannot be read, no
step over the limit, no more memory than `MOST_MEMORY_BYTES`, and it starts again on whatever it has stored.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import signal
import struct
import subprocess
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from bench.apache_kafka import free_port
from ottla.testing import BrokerProcess
from ottla.wire import Malformed, Unencodable
from ottla.wire.api.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.api.create_acls import CreateAclsRequest
from ottla.wire.api.create_topics import CreateTopicsRequest
from ottla.wire.api.sasl_authenticate import SaslAuthenticateRequest
from ottla.wire.api.sasl_handshake import SaslHandshakeRequest
from ottla.wire.apis import API
from ottla.wire.errors import UNKNOWN_SERVER_ERROR
from ottla.wire.framing import FrameHeader, decode_response, encode_request
from ottla.wire.schema import Message, Struct
from tests.fuzz.live.extremes import spoiled
from tests.fuzz.live.measured import TOLD
from tests.fuzz.live.memory import Memory
from tests.fuzz.live.requests import Asked, Requests
from tests.fuzz.mutations import mutations
from tests.support.acl_peers import RULES_DECIDE
from tests.support.secured import plain_users
from tests.support.watched import bad_entries, served

MOST_MEMORY_BYTES: Final = 800 << 20
PATIENCE_S: Final = 1.0
"""A reply that takes longer is not waited for: it may wait for others, or for ever."""
ALIVE_S: Final = 30.0
PEERS: Final = (*(None,) * 9, *("alice",) * 5)
"""Whom the connections belong to; None may do everything."""
MUTATED: Final = 0.05
SELDOM: Final = (20, 42, 36, 17, 31, 7)
"""APIs that end what others need: topics, groups, connections, rules."""
OFTEN: Final = (0, 1, 11, 14, 19, 22, 24, 25, 26, 28, 44, 68, 8, 9, 76, 78, 78, 79, 88)
TURNED_AWAY: Final = re.compile("refused a connection|delayed and closed a connection of")
"""What the log says where limits of connections were set that keep new ones out."""
STOP_S: Final = 40.0
KEPT_FRAMES: Final = 200
UNSERVED: Final = 0.02
"""Of requests, those of APIs that a lone broker does not serve."""
FAILS_AS_KAFKA: Final = (
    "CreateAcls",
    "WriteTxnMarkers",
    "Fetch",
    "ShareFetch",
    "ListOffsets v0",
    "OffsetCommit v0",
    "OffsetFetch v0",
)
"""APIs in which Kafka says UNKNOWN_SERVER_ERROR to what makes no sense. A mistake would be in the log."""


FIRST: Final[tuple[tuple[int, int, Message], ...]] = (
    (18, 3, ApiVersionsRequest(client_software_name="fuzz", client_software_version="1")),
    (
        19,
        5,
        CreateTopicsRequest(
            timeout_ms=5000,
            topics=[
                CreateTopicsRequest.CreatableTopic(
                    name=name,
                    num_partitions=3,
                    replication_factor=1,
                    configs=[CreateTopicsRequest.CreatableTopicConfig(name="cleanup.policy", value=policy)],
                )
                for name, policy in (("t0", "delete"), ("t1", "compact"), ("t2", "delete"))
            ],
        ),
    ),
    (
        30,
        2,
        CreateAclsRequest(
            creations=[
                CreateAclsRequest.AclCreation(
                    resource_type=kind,
                    resource_name=prefix,
                    resource_pattern_type=4,
                    principal="User:alice",
                    host="*",
                    operation=2,
                    permission_type=3,
                )
                for kind, prefix in ((2, "t"), (3, "g"), (5, "x"))
            ]
        ),
    ),
)
"""What is asked first: which APIs are served, topics, and rules by which the second user may do something."""


class MeasuredBroker(BrokerProcess):
    """The broker whose steps are timed."""

    def command(self) -> list[str]:
        words = super().command()
        at = words.index("ottla.cli.main")
        return [*words[:at], "tests.fuzz.live.measured", *words[at + 1 :]]


class Life:
    """A broker, its peers and what was found. `faults` has each kind of fault once, with what showed it."""

    def __init__(self, home: Path, rng: random.Random, apis: tuple[int, ...] = ()) -> None:
        self._rng = rng
        self._apis = apis
        self._memory = Memory()
        self._secured = free_port()
        self._listener = f"127.0.0.1:{self._secured},name=FUZZED,security=SASL_PLAINTEXT"
        prefix = "listener.name.fuzzed"
        settings: dict[str, object] = {
            **RULES_DECIDE,
            f"{prefix}.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
            f"{prefix}.plain.sasl.jaas.config": plain_users({"alice": "alice"}),
            "delegation.token.secret.key": "fuzz",
            "group.initial.rebalance.delay.ms": 0,
        }
        self.broker = MeasuredBroker(home / "data", served(settings), arguments=["--listen", self._listener])
        self.faults: dict[str, str] = {}
        self.asked = 0
        self.replies: Counter[str] = Counter()
        self.closed: Counter[str] = Counter()
        self.largest_bytes = 0
        self._seen = 0
        self._frames: deque[tuple[str, bytes]] = deque(maxlen=KEPT_FRAMES)

    def live(self, seconds: float) -> None:
        """Ask for so long, then have the broker stopped, started, killed and started again."""
        self.broker.start()
        try:
            asyncio.run(self._prepare())
            asyncio.run(self._ask_for(seconds))
            for kill in (False, True):
                if not self.broker.is_running:
                    break
                self._restart(kill=kill)
            self._stop()
        finally:
            self.broker.kill()
        self._read_log()

    def _stop(self) -> None:
        """Have it stop in order; where it does not, its log shows what it did instead."""
        if not self.broker.is_running:
            return
        pid = self.broker.pid
        late = threading.Timer(STOP_S - 5, os.kill, (pid, signal.SIGUSR1))
        late.start()
        try:
            if code := self.broker.stop(STOP_S):
                self._fault("exit", f"a stop ended with exit code {code}")
        except subprocess.TimeoutExpired:
            self._fault("stop", f"it does not stop within {STOP_S:.0f} s")
        finally:
            late.cancel()

    def _restart(self, *, kill: bool) -> None:
        if kill:
            self.broker.kill()
        else:
            self._stop()
        try:
            self.broker.start()
        except Exception as error:
            self._fault("start", f"it does not start again on what it stored: {error}")
        self._read_log()

    async def _prepare(self) -> None:
        """Ask what has to be asked first."""
        reader, writer = await asyncio.open_connection(self.broker.host, self.broker.port)
        for key, version, body in FIRST:
            writer.write(b"".join(encode_request(FrameHeader(key, version, 0, "fuzz"), body)))
            async with asyncio.timeout(ALIVE_S):
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                _, answer = decode_response(key, version, await reader.readexactly(size))
            self._memory.learn(API[key].name, body, answer)
            if isinstance(answer, ApiVersionsResponse) and not self._apis:
                self._apis = tuple(one.api_key for one in answer.api_keys)
        writer.close()

    async def _ask_for(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        peers = [asyncio.create_task(self._peer(number, user, until)) for number, user in enumerate(PEERS)]
        while time.monotonic() < until and self.broker.is_running:
            await asyncio.sleep(0.25)
            self._look()
        for done in await asyncio.gather(*peers, return_exceptions=True):
            if isinstance(done, BaseException):
                raise done
        if not self.broker.is_running:
            self._fault("exit", "the broker ended")
        elif not await self._is_alive() and not TURNED_AWAY.search(self.broker.log):
            os.kill(self.broker.pid, signal.SIGUSR1)
            self._fault("stuck", f"a new connection was not answered within {ALIVE_S:.0f} s")

    def _look(self) -> None:
        if not self.broker.is_running:
            return
        with suppress(OSError):
            status = Path(f"/proc/{self.broker.pid}/status").read_text()
            found = re.search(r"VmRSS:\s+(\d+) kB", status)
            self.largest_bytes = max(self.largest_bytes, int(found[1]) << 10 if found else 0)
        if self.largest_bytes > MOST_MEMORY_BYTES:
            self._fault("memory", f"{self.largest_bytes >> 20} MB")
        self._read_log()

    async def _is_alive(self) -> bool:
        try:
            async with asyncio.timeout(ALIVE_S):
                reader, writer = await asyncio.open_connection(self.broker.host, self.broker.port)
                ask = encode_request(FrameHeader(18, 0, 1, "alive"), ApiVersionsRequest())
                writer.write(b"".join(ask))
                await reader.readexactly(4)
                writer.close()
        except (OSError, EOFError, TimeoutError):
            return False
        return True

    async def _peer(self, number: int, user: str | None, until: float) -> None:
        """One peer: a request after the other, on new connections where one was closed or keeps a reply back."""
        rng = random.Random(self._rng.random())
        requests = Requests(rng, self._memory)
        while time.monotonic() < until and self.broker.is_running:
            with suppress(OSError, EOFError, TimeoutError):
                await self._converse(requests, rng, number, user, until)
            await asyncio.sleep(0.01)

    async def _converse(self, requests: Requests, rng: random.Random, number: int, user: str | None, until: float) -> None:
        port = self.broker.port if user is None else self._secured
        reader, writer = await asyncio.wait_for(asyncio.open_connection("127.0.0.1", port, limit=1 << 20), ALIVE_S)
        try:
            if user is not None:
                await _log_in(reader, writer, user)
            while time.monotonic() < until:
                asked = requests.make(self._any_api(rng))
                client = rng.choice(("fuzz", "fuzz", f"fuzz{number}", "", "%s\n", "x" * 300))
                if not await self._ask(reader, writer, requests, asked, client):
                    return
        finally:
            writer.close()

    def _any_api(self, rng: random.Random) -> int:
        chance = rng.random()
        if chance < UNSERVED:
            return rng.choice(tuple(API))
        often = tuple(key for key in OFTEN if key in self._apis)
        key = rng.choice(often if often and chance < 0.5 else self._apis)
        return rng.choice(self._apis) if key in SELDOM else key

    async def _ask(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, requests: Requests, asked: Asked, client: str
    ) -> bool:
        """Ask and judge the answer; whether the connection can go on."""
        rng = requests.rng
        name, correlation_id = f"{API[asked.key].name} v{asked.version}", rng.randrange(1 << 31)
        try:
            frame = b"".join(encode_request(FrameHeader(asked.key, asked.version, correlation_id, client), asked.body))
        except Unencodable:
            return True
        is_sound, told = (told := spoiled(frame)) == frame, told
        if rng.random() < MUTATED and len(frame) < 100_000:
            body = next(iter(mutations([frame[8:]], rng, 1)))
            told = struct.pack(">i", 4 + len(body)) + frame[4:8] + body
            is_sound = False
        self._frames.append((name, told))
        self.asked += 1
        try:
            async with asyncio.timeout(PATIENCE_S):
                writer.write(told)
                await writer.drain()
                if not asked.is_answered and is_sound:
                    return True
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                reply = await reader.readexactly(size)
        except TimeoutError:
            self.closed[f"{name} late"] += 1
            return False
        except (OSError, EOFError):
            self.closed[f"{name}{'' if is_sound else ' spoiled'}"] += 1
            return False
        if self._judge(name, asked, reply, correlation_id if is_sound else None):
            requests.succeeded(asked)
        return True

    def _judge(self, name: str, asked: Asked, reply: bytes, correlation_id: int | None) -> bool:
        """Look for faults in a reply; whether it answers the request without an error."""
        version = 0 if asked.key == 18 and reply[4:6] == b"\0\x23" else asked.version
        try:
            found, answer = decode_response(asked.key, version, reply)
        except Malformed as malformed:
            self._fault(f"unreadable {name}", f"{malformed}: {reply[:200].hex()}")
            return False
        if correlation_id is not None and found != correlation_id:
            self._fault(f"correlation id {name}", f"{found} instead of {correlation_id}")
        codes = set(error_codes(answer))
        self.replies[f"{API[asked.key].name} {'error' if codes - {0} else 'fine'}"] += 1
        if UNKNOWN_SERVER_ERROR in codes and not name.startswith(FAILS_AS_KAFKA):
            self._fault(f"UNKNOWN_SERVER_ERROR {name}", f"{asked.body!r:.1000} -> {answer!r:.1000}")
        if correlation_id is not None:
            self._memory.learn(API[asked.key].name, asked.body, answer)
        return correlation_id is not None and codes <= {0}

    def _read_log(self) -> None:
        written = self.broker.log_path.read_bytes()
        whole = written.rfind(b"\n") + 1
        fresh, self._seen = written[self._seen : whole].decode(errors="replace"), whole
        for entry in bad_entries(fresh):
            lines = entry.strip().splitlines()
            self._fault(f"log: {_kind(lines[0])} {lines[-1][:100]}", entry)
        for line in fresh.splitlines():
            if line.startswith(TOLD):
                self._fault(f"slow: {_kind(line)}", line)

    def _fault(self, kind: str, shown: str) -> None:
        if kind not in self.faults:
            self.faults[kind] = shown
            print(f"FAULT {kind}\n{shown[:6000]}", file=sys.stderr, flush=True)

    def last_frames(self) -> str:
        """The last requests that were sent, for a person to send again."""
        return "\n".join(f"{name}: {frame[:4000].hex()}" for name, frame in self._frames)


async def _log_in(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, user: str) -> None:
    """Log in with the password that is called as the user."""
    token = f"\0{user}\0{user}".encode()
    for key, version, body in (
        (17, 1, SaslHandshakeRequest(mechanism="PLAIN")),
        (36, 1, SaslAuthenticateRequest(auth_bytes=token)),
    ):
        writer.write(b"".join(encode_request(FrameHeader(key, version, 0, "fuzz"), body)))
        async with asyncio.timeout(ALIVE_S):
            (size,) = struct.unpack(">i", await reader.readexactly(4))
            await reader.readexactly(size)


def error_codes(message: Message | Struct) -> Iterator[int]:
    """Every error code of an answer."""
    for field in message.WIRE.fields:
        value: Any = getattr(message, field.name)
        if field.kind == "struct":
            for one in value if isinstance(value, list) else () if value is None else (value,):
                yield from error_codes(one)
        elif field.name.endswith("error_code"):
            yield value


def _kind(line: str) -> str:
    """A line without what differs from one of its kind to the next."""
    return re.sub(r"0x[0-9a-f]+|\d+", "N", re.sub(r"^\S+T\S+ |\b(?=[0-9a-f]*\d)[0-9a-f]{12,}", "", line))[:160]
