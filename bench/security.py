"""TLS and logins, the same on every broker: `python -m bench.security`, and part of `make bench`.

Records of 1 KB by confluent-kafka and as ready-made batches, both over TLS; and how many connections a second log in by SCRAM.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import hmac
import os
import shutil
import socket
import ssl
import struct
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import trustme
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._scram import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

from bench import raw
from bench.apache_kafka import free_port
from bench.loads import CHUNK, QUIET, Figures, records, topic_of
from bench.report import Results, table
from bench.servers import QUICK_GROUPS, Kafka, Ottla, Server, cpu_s

HOST = "127.0.0.1"
MECHANISM, USER, PASSWORD = "SCRAM-SHA-256", "bench", b"a password"
ITERATIONS = 4096
AT_ONCE = 8
HANDSHAKE, AUTHENTICATE = 17, 36
LABEL = "1 KB over TLS"
BATCH = 100


@dataclass(frozen=True)
class Sizes:
    """How much of everything."""

    records: int = 200_000
    logins: int = 4_000

    def divided(self, by: int) -> Sizes:
        return Sizes(max(10 * CHUNK, self.records // by), max(10 * AT_ONCE, self.logins // by))


class Secured:
    """One broker with a plaintext listener, one with TLS and one with SCRAM, and what clients are told of them."""

    def __init__(self, home: Path, *, is_kafka: bool) -> None:
        home.mkdir()
        self.authority = home / "authority.pem"
        authority = trustme.CA()
        authority.cert_pem.write_to_path(str(self.authority))
        store = home / "server.pem"
        store.write_bytes(key_store(authority.issue_cert(HOST)))
        self.tls, self.sasl = (f"{HOST}:{free_port()}" for _ in range(2))
        settings: dict[str, object] = {
            **QUICK_GROUPS,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": store,
            "listener.name.sasl_plaintext.sasl.enabled.mechanisms": MECHANISM,
            f"listener.name.sasl_plaintext.{MECHANISM.lower()}.sasl.jaas.config": (
                "org.apache.kafka.common.security.scram.ScramLoginModule required;"
            ),
        }
        self.server: Server = self._kafka(settings) if is_kafka else self._ottla(settings)

    def _ottla(self, settings: dict[str, object]) -> Ottla:
        return Ottla(
            settings, arguments=("--listen", f"{self.tls},security=SSL", "--listen", f"{self.sasl},security=SASL_PLAINTEXT")
        )

    def _kafka(self, settings: dict[str, object]) -> Kafka:
        kafka = Kafka(settings=settings)
        addresses = f"PLAINTEXT://{kafka.address},SSL://{self.tls},SASL_PLAINTEXT://{self.sasl}"
        kafka.settings |= {
            "listeners": f"{addresses},CONTROLLER://{HOST}:{kafka.controller_port}",
            "advertised.listeners": addresses,
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        }
        return kafka

    @property
    def client(self) -> Mapping[str, object]:
        """For confluent-kafka."""
        return {"bootstrap.servers": self.tls, "security.protocol": "SSL", "ssl.ca.location": str(self.authority)}

    def add_user(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.server.address, **QUIET})
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, ITERATIONS)
        for done in admin.alter_user_scram_credentials([UserScramCredentialUpsertion(USER, info, PASSWORD)]).values():
            done.result(30)


def key_store(issued: trustme.LeafCert) -> bytes:
    """A private key, as the PKCS#8 that Java reads, and its certificates."""
    key = load_pem_private_key(issued.private_key_pem.bytes(), None)
    written = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return written + b"".join(each.bytes() for each in issued.cert_chain_pems)


def over_tls(secured: Secured, sizes: Sizes) -> Figures:
    server = secured.server
    figures = records(server, sizes.records, sizes.records, 1000, LABEL, secured.client)
    context = ssl.create_default_context(cafile=str(secured.authority))
    with topic_of(server, 1) as topic:
        spent = cpu_s(server)
        took = raw.pipelined(secured.tls, topic, sizes.records // BATCH, 5, BATCH, size=1000, tls=context)
        spent = cpu_s(server) - spent
    return figures | {
        f"{LABEL} produce, ready-made batches, records/s": sizes.records / took,
        f"{LABEL} produce, ready-made batches, broker CPU, s per million": spent * 1e6 / sizes.records,
    }


def logins(secured: Secured, count: int) -> Figures:
    spent, began = cpu_s(secured.server), time.perf_counter()
    for _ in range(count // AT_ONCE):
        log_in(secured.sasl)
    took, spent = time.perf_counter() - began, cpu_s(secured.server) - spent
    done = count // AT_ONCE * AT_ONCE
    return {f"{MECHANISM} logins/s": done / took, f"{MECHANISM} logins, broker CPU, s per thousand": spent * 1000 / done}


def log_in(address: str) -> None:
    """So many connections at once, in step with each other."""
    with ExitStack() as held:
        links = [held.enter_context(raw.connect(address)) for _ in range(AT_ONCE)]
        name = MECHANISM.encode()
        for link in links:
            link.sendall(frame(HANDSHAKE, 1, struct.pack(">h", len(name)) + name))
        for link in links:
            if raw.reply(link)[4:6] != b"\0\0":
                raise RuntimeError(f"{MECHANISM} is not offered")
        first = [f"n={USER},r={os.urandom(12).hex()}" for _ in links]
        challenges = [text.decode() for text in said(links, [f"n,,{text}".encode() for text in first])]
        said(links, [final(*pair) for pair in zip(first, challenges, strict=True)])


def said(links: list[socket.socket], messages: list[bytes]) -> list[bytes]:
    """What the broker says to a message of each."""
    for link, message in zip(links, messages, strict=True):
        link.sendall(frame(AUTHENTICATE, 1, struct.pack(">i", len(message)) + message))
    answers = list[bytes]()
    for link in links:
        answer = raw.reply(link)
        error_code, words = struct.unpack_from(">hh", answer, 4)
        if error_code:
            raise RuntimeError(f"a login was refused: {answer!r}")
        at = 8 + max(words, 0)
        (size,) = struct.unpack_from(">i", answer, at)
        answers.append(answer[at + 4 : at + 4 + size])
    return answers


def frame(key: int, version: int, body: bytes) -> bytes:
    data = struct.pack(">hhih", key, version, 1, 5) + b"bench" + body
    return struct.pack(">i", len(data)) + data


@cache
def salted(salt: str, iterations: int) -> bytes:
    return hashlib.pbkdf2_hmac("sha256", PASSWORD, base64.b64decode(salt), iterations)


def final(first: str, challenge: str) -> bytes:
    """The client's proof (RFC 5802)."""
    given = dict(part.split("=", 1) for part in challenge.split(","))
    client_key = hmac.digest(salted(given["s"], int(given["i"])), b"Client Key", "sha256")
    bare = f"c=biws,r={given['r']}"
    signature = hmac.digest(hashlib.sha256(client_key).digest(), f"{first},{challenge},{bare}".encode(), "sha256")
    proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
    return f"{bare},p={base64.b64encode(proof).decode()}".encode()


def measure(results: Results, sizes: Sizes, rounds: int, *, alone: bool = False) -> None:
    """All brokers in turns."""
    home = Path(tempfile.mkdtemp(prefix="ottla-bench-"))
    with ExitStack() as running:
        running.callback(shutil.rmtree, home, ignore_errors=True)
        brokers = [Secured(home / str(is_kafka), is_kafka=is_kafka) for is_kafka in ([False] if alone else [False, True])]
        for each in brokers:
            running.enter_context(each.server)
            each.add_user()
            over_tls(each, sizes.divided(10))
            logins(each, sizes.logins // 10)
        for _ in range(rounds):
            for each in brokers:
                results.add(each.server.name, over_tls(each, sizes) | logins(each, sizes.logins))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.security", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--divide", type=int, default=1, metavar="N", help="make every load N times smaller")
    parser.add_argument("--alone", action="store_true", help="measure Ottla without Apache Kafka")
    wanted = parser.parse_args()
    results = Results([Ottla.name] if wanted.alone else [Ottla.name, Kafka.name])
    measure(results, Sizes().divided(wanted.divide), wanted.rounds, alone=wanted.alone)
    print(table(results))


if __name__ == "__main__":
    main()
