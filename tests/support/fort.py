"""A broker that lets in few and allows less: its listeners, users, rules of access, and the canary that nobody else may touch.

`Fort` starts it and knows every secret; `Line` is a connection of somebody who speaks by hand, and notes what it hears.
"""

from __future__ import annotations

import socket
import ssl
import struct
import threading
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import Any, Self

from bench.apache_kafka import free_port
from ottla.broker.settings.broker_access import BY_RULES
from ottla.cluster.acls import Operation, Pattern, Permission, Resource
from ottla.records.batches.builder import build
from ottla.sasl.scram import ALGORITHMS, SHA_256
from ottla.testing import BrokerProcess
from ottla.wire.framing import FrameHeader, decode_response, encode_request
from tests.support.messages import request
from tests.support.secured import HOST, SCRAM_USERS, Certificates, plain_users
from tests.support.watched import served

CANARY, CANARY_GROUP, CANARY_TXN = "canary", "canary-group", "canary-txn"
SONG, NOTE = b"tirili, tirila", "a word about tirili"
"""The one record of the canary, and the metadata of what is committed of it."""
PASSWORDS = {
    "admin": "admin's own word",
    "alice": "alice's own word",
    "mallory": "mallory's own word",
    "innocent": "nobody's fault",
    "zo\u00eb": "zoe's own word",
}
TOKEN_KEY = "what delegation tokens are signed with"
SECRETS = (*PASSWORDS.values(), TOKEN_KEY)
BATCH_MS = 1_700_000_000_000
BRIEF_MS = 300
MECHANISMS = ("PLAIN", *ALGORITHMS)
PROTOCOLS = {
    "LOGIN": "SASL_PLAINTEXT",
    "AGAIN": "SASL_PLAINTEXT",
    "BRIEF": "SASL_PLAINTEXT",
    "BEARER": "SASL_PLAINTEXT",
    "ENCRYPTED": "SASL_SSL",
    "OPEN": "SSL",
    "ASKED": "SSL",
    "MUTUAL": "SSL",
}
"""On AGAIN logins can be renewed, on BRIEF they end soon; ASKED takes certificates, MUTUAL wants them."""

LITERAL, PREFIXED = Pattern.LITERAL, Pattern.PREFIXED
ALLOW, DENY = Permission.ALLOW, Permission.DENY
TOPIC, GROUP, TXN = Resource.TOPIC, Resource.GROUP, Resource.TRANSACTIONAL_ID
ALL = Operation.ALL
NEARLY_MALLORY = ("User:Mallory", "user:mallory", "Group:mallory", "User:mallory2", "User:mall")
RULES = (
    *(
        (kind, LITERAL, name, "User:alice", "*", ALL, ALLOW)
        for kind, name in ((TOPIC, CANARY), (GROUP, CANARY_GROUP), (TXN, CANARY_TXN))
    ),
    *((kind, PREFIXED, "m-", "User:mallory", "*", ALL, ALLOW) for kind in (TOPIC, GROUP, TXN)),
    (TOPIC, LITERAL, "m-denied", "User:mallory", "*", ALL, DENY),
    (TOPIC, PREFIXED, "m-no-", "User:*", "*", Operation.WRITE, DENY),
    (GROUP, LITERAL, "m-denied", "User:mallory", "*", Operation.READ, DENY),
    (TOPIC, LITERAL, "exact", "User:mallory", "*", ALL, ALLOW),
    (TOPIC, LITERAL, "glass", "User:mallory", "*", Operation.DESCRIBE, ALLOW),
    (TOPIC, PREFIXED, "*", "User:mallory", "*", ALL, ALLOW),
    (TOPIC, LITERAL, CANARY, "User:mallory", "10.9.9.9", ALL, ALLOW),
    *((TOPIC, LITERAL, CANARY, who, "*", ALL, ALLOW) for who in NEARLY_MALLORY),
    *((kind, LITERAL, "innocent", "User:innocent", "*", ALL, ALLOW) for kind in (TOPIC, GROUP)),
    (Resource.USER, LITERAL, "User:bob", "User:mallory", "*", Operation.CREATE_TOKENS, ALLOW),
)  # fmt: skip
"""What is allowed and denied; mallory has all that begins with "m-", but for what is denied there."""
TOPICS = (CANARY, "innocent", "m-own", "m-denied", "m-no-writing", "exact", "exactly", "glass", "lent", "lent-by-id", "m", "M-own")
ASK_LAST = 12
"""The version of Metadata that tells whether a connection is served."""


class Line:
    """One connection. `heard` is what came of each step, in few words; `sent` and `got` are all bytes of requests and answers."""

    def __init__(self, port: int, context: ssl.SSLContext | None = None) -> None:
        plain = socket.create_connection((HOST, port), timeout=30)
        try:
            self.socket = plain if context is None else context.wrap_socket(plain, server_hostname=HOST)
        except BaseException:
            plain.close()
            raise
        self.heard: list[str] = []
        self.sent, self.got = b"", b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.sent += data
        self.socket.sendall(data)

    def read(self, size: int) -> bytes:
        """Raises EOFError where it is closed before."""
        found = b""
        while len(found) < size:
            data = self.socket.recv(size - len(found))
            if not data:
                raise EOFError
            found += data
        self.got += found
        return found

    def frame(self) -> bytes:
        return self.read(struct.unpack(">i", self.read(4))[0])

    def say(self, frame: bytes) -> None:
        """One frame, whatever is in it."""
        self.send(struct.pack(">i", len(frame)) + frame)

    def put(self, key: int, version: int, /, client: str = "try", **values: Any) -> None:
        """A request, without waiting for its answer."""
        self.send(b"".join(encode_request(FrameHeader(key, version, 7, client), request(key, version, **values))))

    def ask(self, key: int, version: int, /, **values: Any) -> Any:
        self.put(key, version, **values)
        return decode_response(key, version, self.frame())[1]

    def handshake(self, mechanism: str, version: int = 1) -> None:
        self.heard.append(str(self.ask(17, version, mechanism=mechanism).error_code))

    def token(self, data: bytes, version: int = 2) -> bytes:
        """A step of a login; what the broker says to it."""
        answer = self.ask(36, version, auth_bytes=data)
        self.heard.append(str(answer.error_code))
        return bytes(answer.auth_bytes)

    def plain(self, name: str, password: str, acts_as: str = "") -> None:
        self.handshake("PLAIN")
        self.token(f"{acts_as}\0{name}\0{password}".encode())

    def login(self, name: str) -> Self:
        """As somebody, with the right password."""
        self.plain(name, PASSWORDS[name])
        assert self.heard[-2:] == ["0", "0"], f"{name} is not let in"
        self.heard.clear()
        return self

    def is_served(self) -> bool:
        self.put(3, ASK_LAST, topics=[])
        self.frame()
        return True


def batch(value: bytes = b"v", **more: Any) -> bytes:
    return bytes(build(None, [value], BATCH_MS, **more))


class Fort:
    """The broker, where its listeners are, and what those know who belong there."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.ports = {name: free_port() for name in PROTOCOLS}
        self.certificates = Certificates(home)
        self.jwt_key: Any = None
        listen = [("--listen", f"{HOST}:{port},security={PROTOCOLS[name]},name={name}") for name, port in self.ports.items()]
        self.broker = BrokerProcess(home / "data", served(self._settings()), arguments=[word for pair in listen for word in pair])

    def _settings(self) -> dict[str, object]:
        made: dict[str, object] = {
            "authorizer.class.name": BY_RULES[0],
            "super.users": "User:admin",
            "auto.create.topics.enable": True,
            "delegation.token.secret.key": TOKEN_KEY,
            "connection.failed.authentication.delay.ms": 10,
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": self.certificates.server,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.certificates.trust_store,
            "listener.name.mutual.ssl.client.auth": "required",
            "listener.name.asked.ssl.client.auth": "requested",
            "ssl.principal.mapping.rules": "RULE:^CN=([^,]*),OU=people,O=Ottla$/$1/,DEFAULT",
            "listener.name.again.connections.max.reauth.ms": 60_000,
            "listener.name.brief.connections.max.reauth.ms": BRIEF_MS,
            **self._bearer(),
        }
        for name in ("login", "again", "brief", "encrypted"):
            made[f"listener.name.{name}.plain.sasl.jaas.config"] = plain_users(PASSWORDS)
            for size in (256, 512):
                made[f"listener.name.{name}.scram-sha-{size}.sasl.jaas.config"] = SCRAM_USERS
        return made

    def _bearer(self) -> dict[str, object]:
        """Tokens that are signed, where what checks them is installed."""
        try:
            import jwt
            from cryptography.hazmat.primitives.asymmetric import rsa
        except ImportError:
            return {"listener.name.bearer.sasl.enabled.mechanisms": "SCRAM-SHA-256"}
        self.jwt_key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        jwk = jwt.algorithms.RSAAlgorithm.to_jwk(self.jwt_key.public_key())
        (self.home / "keys.json").write_text('{"keys": [' + jwk[:-1] + ', "kid": "one"}]}')
        return {
            "listener.name.bearer.sasl.enabled.mechanisms": "OAUTHBEARER",
            "sasl.oauthbearer.jwks.endpoint.url": f"file://{self.home}/keys.json",
            "sasl.oauthbearer.expected.audience": "ottla",
            "sasl.oauthbearer.expected.issuer": "https://idp.example",
        }

    def line(self, listener: str = "LOGIN", context: ssl.SSLContext | None = None) -> Line:
        return Line(self.ports[listener], context)

    def trusting(self, shown: Path | None = None) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.certificates.trust_store))
        if shown is not None:
            context.load_cert_chain(shown)
        return context

    def certificate(self, pem: bytes) -> Path:
        """A file of a client's key and certificate."""
        path = self.home / f"{token_hex(8)}.pem"
        path.write_bytes(pem)
        return path

    def as_admin(self, key: int, version: int, /, **values: Any) -> Any:
        return self._admin.ask(key, version, **values)

    def prepare(self, admin: Line) -> None:
        """Topics, rules, users, tokens and the canary, by a connection that is the admin's from now on."""
        self._admin = admin.login("admin")
        topics = [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in TOPICS]
        self.as_admin(19, 5, topics=topics, timeout_ms=30_000)
        names = "resource_type", "resource_pattern_type", "resource_name", "principal", "host", "operation", "permission_type"
        made = self.as_admin(30, 2, creations=[dict(zip(names, rule, strict=True)) for rule in RULES])
        assert not any(result.error_code for result in made.results)
        for number in (1, 2):
            given = self.as_admin(51, 0, deletions=[], upsertions=[_credential(name, number) for name in PASSWORDS])
            assert not any(result.error_code for result in given.results)
        self.ids = {topic.name: bytes(topic.topic_id) for topic in self.as_admin(3, 12, topics=None).topics}
        self._fill()
        self._make_tokens()
        self.before = self.state()

    def _fill(self) -> None:
        for kind, key in ((0, CANARY_GROUP), (1, CANARY_TXN)):
            while self.as_admin(10, 3, key=key, key_type=kind).error_code:
                time.sleep(0.05)
        part = [{"index": 0, "records": batch(b"lent out")}]
        lent = [{"name": name, "partition_data": part} for name in ("lent", "lent-by-id")]
        self.as_admin(0, 9, acks=-1, timeout_ms=30_000, topic_data=lent)
        with self.line().login("alice") as line:
            data = [{"name": CANARY, "partition_data": [{"index": 0, "records": batch(SONG)}]}]
            line.ask(0, 9, acks=-1, timeout_ms=30_000, topic_data=data)
            part = [{"partition_index": 0, "committed_offset": 1, "committed_metadata": NOTE}]
            for _ in range(600):
                answer = line.ask(8, 8, group_id=CANARY_GROUP, topics=[{"name": CANARY, "partitions": part}])
                if not answer.topics[0].partitions[0].error_code:
                    break
                time.sleep(0.05)
            for _ in range(600):
                got = line.ask(22, 4, transactional_id=CANARY_TXN, transaction_timeout_ms=900_000)
                if not got.error_code:
                    break
                time.sleep(0.05)
            self.producer = {"producer_id": got.producer_id, "producer_epoch": got.producer_epoch}

    def _make_tokens(self) -> None:
        """One of alice, one of mallory, and one of alice that has ended."""
        self.tokens: dict[str, tuple[str, bytes]] = {}
        for name, owner in (("alice", "alice"), ("mallory", "mallory"), ("ended", "alice"), ("past", "alice")):
            with self.line().login(owner) as line:
                made = line.ask(38, 3, renewers=[], max_lifetime_ms=100 if name == "past" else -1)
                assert not made.error_code
                self.tokens[name] = made.token_id, bytes(made.hmac)
                if name == "ended":
                    line.ask(40, 2, hmac=made.hmac, expiry_time_period_ms=-1)

    def state(self) -> dict[str, Any]:
        """All that nobody may change, and how much of the canary there is."""
        anything = {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1}
        rules = self.as_admin(29, 3, resource_name_filter=None, principal_filter=None, host_filter=None, **anything)
        seen = {"resource_type": 2, "resource_name": CANARY}, {"resource_type": 4, "resource_name": "1"}
        configs = self.as_admin(32, 4, resources=[{**one, "configuration_keys": None} for one in seen])
        part = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}]
        fetch = {"replica_id": -1, "max_wait_ms": 0, "max_bytes": 1 << 20, "session_epoch": -1}
        held = self.as_admin(1, 12, topics=[{"topic": CANARY, "partitions": part}], **fetch).responses[0].partitions[0]
        groups = [{"group_id": CANARY_GROUP, "topics": None}]
        return {
            "rules": sorted(repr(one) for one in rules.resources),
            "configs": [[(config.name, config.value) for config in one.configs] for one in configs.results],
            "users": sorted(repr(one) for one in self.as_admin(50, 0, users=None).results),
            "quotas": repr(self.as_admin(48, 1, components=[], strict=False).entries),
            "canary": (held.high_watermark, bytes(held.records)),
            "topics": {one.name: (bytes(one.topic_id), len(one.partitions)) for one in self._own_topics()},
            "offsets": repr(self.as_admin(9, 8, groups=groups).groups),
            "group": repr(self.as_admin(15, 5, groups=[CANARY_GROUP]).groups),
            "transactions": repr(self.as_admin(65, 0, transactional_ids=[CANARY_TXN]).transaction_states),
            "logins": {name: self._lets_in(name) for name in PASSWORDS},
        }

    def _own_topics(self) -> list[Any]:
        return [one for one in self.as_admin(3, 12, topics=None).topics if one.name in TOPICS]

    def _lets_in(self, name: str) -> bool:
        with self.line().login(name) as line:
            return line.is_served()

    @property
    def found_of_secrets(self) -> list[str]:
        """Those that stand in the log."""
        hmacs = [text for _, proof in self.tokens.values() for text in (proof.hex(), b64encode(proof).decode())]
        return [secret for secret in (*SECRETS, *hmacs, SONG.decode(), NOTE) if secret in self.broker.log]


def _credential(name: str, number: int) -> dict[str, Any]:
    algorithm = SHA_256 if number == 1 else ALGORITHMS["SCRAM-SHA-512"]
    salt = f"salt of {name}".encode()
    salted = algorithm.salt_password(PASSWORDS[name], salt, 4096)
    return {"name": name, "mechanism": number, "iterations": 4096, "salt": salt, "salted_password": salted}


class Innocent(threading.Thread):
    """Writes and reads back its own records all the while. `count` is how many; `failure` why it could not go on."""

    def __init__(self, fort: Fort) -> None:
        super().__init__(daemon=True)
        self._fort = fort
        self._ended = threading.Event()
        self.count = 0
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            with self._fort.line("ENCRYPTED", self._fort.trusting()).login("innocent") as line:
                while not self._ended.wait(0.02):
                    self._write_and_read(line)
        except BaseException as failure:
            self.failure = failure

    def _write_and_read(self, line: Line) -> None:
        value = b"%d" % self.count
        data = [{"name": "innocent", "partition_data": [{"index": 0, "records": batch(value)}]}]
        written = line.ask(0, 9, acks=-1, timeout_ms=30_000, topic_data=data).responses[0].partition_responses[0]
        assert (written.error_code, written.base_offset) == (0, self.count)
        part = [{"partition": 0, "fetch_offset": self.count, "partition_max_bytes": 1000}]
        fetch = {"replica_id": -1, "max_wait_ms": 0, "max_bytes": 1000, "session_epoch": -1}
        read = line.ask(1, 12, topics=[{"topic": "innocent", "partitions": part}], **fetch).responses[0].partitions[0]
        assert value in bytes(read.records)
        line.sent = line.got = b""
        self.count += 1

    def end(self) -> None:
        self._ended.set()
        self.join(60)


@contextmanager
def besieged(home: Path) -> Iterator[Fort]:
    """A fort that runs and is as it should be."""
    fort = Fort(home)
    with fort.broker, fort.line() as admin:
        fort.prepare(admin)
        yield fort
