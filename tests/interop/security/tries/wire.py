"""Tries at the door: TLS where there is none and the other way round, old versions of it, certificates of others, half frames."""

from __future__ import annotations

import os
import socket
import ssl
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import trustme

from tests.interop.security.tries.row import CLOSED, IN, LOST, Try, answered, entering
from tests.support.fort import CANARY, PASSWORDS, Fort
from tests.support.secured import HOST, key_store

LONG_AGO = datetime(2001, 1, 1, tzinfo=UTC)
ASKED = struct.pack(">ihhihi", 14, 3, 1, 7, -1, -1)
"""Metadata of everything, as a frame."""
Shown = Callable[[Fort], Path | None]


def issued(**said: Any) -> Shown:
    """A certificate of the fort's own authority that says this, of the unit "people" if it says nothing of one."""
    of_unit = {"organization_unit_name": "people", **said}
    return lambda fort: fort.certificate(key_store(fort.certificates.authority.issue_cert("client.example", **of_unit)))


def strangers(**said: Any) -> Shown:
    """The same of somebody else's authority."""
    return lambda fort: fort.certificate(key_store(trustme.CA().issue_cert("client.example", **said)))


def _self_signed(fort: Fort) -> Path:
    """An authority that is its own client."""
    alone = trustme.CA()
    return fort.certificate(alone.private_key_pem.bytes() + alone.cert_pem.bytes())


def entering_by(listener: str, shown: Shown, version: ssl.TLSVersion | None = None) -> Callable[[Fort], str]:
    """Show a certificate, and ask for the versions of all APIs."""

    def act(fort: Fort) -> str:
        context = fort.trusting(shown(fort))
        if version is not None:
            context.minimum_version = context.maximum_version = version
        try:
            with fort.line(listener, context) as line:
                line.ask(18, 0)
                return IN
        except LOST:
            return CLOSED

    return act


def asking_as(shown: Shown, listener: str = "MUTUAL") -> Callable[[Fort], str]:
    """Show a certificate and read the canary, as its name may be taken for alice's."""

    def act(fort: Fort) -> str:
        try:
            with fort.line(listener, fort.trusting(shown(fort))) as line:
                part = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}]
                values = {"replica_id": -1, "max_wait_ms": 0, "max_bytes": 1000, "session_epoch": -1}
                return answered(fort, line, 1, 12, {**values, "topics": [{"topic": CANARY, "partitions": part}]})
        except LOST:
            return CLOSED

    return act


NAMES: dict[str, dict[str, str]] = {
    "alice of another organization": {"common_name": "alice", "organization_name": "Others"},
    "alice of none": {"common_name": "alice"},
    "alice and an organization in one part": {"common_name": "alice,OU=people,O=Ottla"},
    "alice and an organization in one part of another": {"common_name": "alice,OU=people,O=Ottla", "organization_name": "Others"},
    "alice with a comma behind": {"common_name": "alice,", "organization_name": "Ottla"},
    "alice and another part in one": {"common_name": "mallory,CN=alice", "organization_name": "Ottla"},
    "alice with a backslash": {"common_name": "alice\\", "organization_name": "Ottla"},
    "alice in quotes": {"common_name": '"alice"', "organization_name": "Ottla"},
    "alice with a plus": {"common_name": "x+CN=alice", "organization_name": "Ottla"},
    "alice with a blank": {"common_name": "alice ", "organization_name": "Ottla"},
    "alice with a zero byte": {"common_name": "alice\0.example", "organization_name": "Ottla"},
    "alice with a line end": {"common_name": "alice\n", "organization_name": "Ottla"},
    "alice in capitals": {"common_name": "ALICE", "organization_name": "Ottla"},
    "alice with a Cyrillic letter": {"common_name": "\u0430lice", "organization_name": "Ottla"},
    "alice in wide letters": {"common_name": "\uff41\uff4c\uff49\uff43\uff45", "organization_name": "Ottla"},
    "alice as a unit": {
        "common_name": "mallory",
        "organization_unit_name": "people,O=Ottla,CN=alice,OU=people",
        "organization_name": "Ottla",
    },
    "alice of another unit": {"common_name": "alice", "organization_unit_name": "x", "organization_name": "Ottla"},
    "the organization with more behind": {"common_name": "alice", "organization_name": "Ottla2"},
    "the organization in capitals": {"common_name": "alice", "organization_name": "OTTLA"},
    "a principal": {"common_name": "User:alice", "organization_name": "Ottla"},
    "everybody": {"common_name": "*", "organization_name": "Ottla"},
    "a group of the rule": {"common_name": "$1", "organization_name": "Ottla"},
    "the admin of another organization": {"common_name": "admin", "organization_name": "Others"},
}


def certificate_tries() -> Iterator[Try]:
    his = {"common_name": "alice", "organization_name": "Ottla"}
    over = {"not_before": LONG_AGO, "not_after": LONG_AGO + timedelta(days=365)}
    ahead = {"not_before": datetime.now(UTC) + timedelta(days=2), "not_after": datetime.now(UTC) + timedelta(days=9)}
    shown: dict[str, Shown] = {
        "none": lambda fort: None,
        "one of alice that is over": issued(**his, **over),
        "one of alice that is not valid yet": issued(**his, **ahead),
        "one of alice of another authority": strangers(**his),
        "one that signs itself": _self_signed,
        "one of another authority with the broker's name": strangers(common_name=HOST),
    }
    for name, one in shown.items():
        yield Try("certificate", f"{name}, where one is wanted", entering_by("MUTUAL", one), CLOSED)
        if name != "none":
            yield Try("certificate", f"{name}, where one may be shown", entering_by("ASKED", one), CLOSED)
    for name, said in NAMES.items():
        yield Try("certificate", name, asking_as(issued(**said)), "0 29")
    yield Try("certificate", "none, to read the canary", asking_as(lambda fort: None, "ASKED"), "0 29")
    yield Try("certificate", "none is asked for, to read the canary", asking_as(issued(**his), "OPEN"), "0 29")


def _old(version: ssl.TLSVersion) -> Callable[[Fort], str]:
    """A handshake that knows an old version of TLS alone; whatever this machine would refuse by itself is let through."""

    def act(fort: Fort) -> str:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.minimum_version = context.maximum_version = version
        context.set_ciphers("ALL:@SECLEVEL=0")
        try:
            with fort.line("OPEN", context) as line:
                return IN if line.is_served() else ""
        except LOST:
            return CLOSED

    return act


def _weak(fort: Fort) -> str:
    """Suites without secrecy or without certificates."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("aNULL:eNULL:@SECLEVEL=0")
    try:
        with fort.line("OPEN", context) as line:
            return IN if line.is_served() else ""
    except LOST:
        return CLOSED


def hello(version: bytes, suites: bytes = b"\xc0\x2b\xc0\x2f\x00\x9c\x00\x2f") -> bytes:
    """The beginning of a handshake, by hand."""
    body = version + os.urandom(32) + b"\0" + struct.pack(">H", len(suites)) + suites + b"\x01\0"
    shaken = b"\x01" + struct.pack(">I", len(body))[1:] + body
    return b"\x16\x03\x01" + struct.pack(">H", len(shaken)) + shaken


def thrown(listener: str, *parts: bytes) -> Callable[[Fort], str]:
    """Bytes, and no more after them. Whatever is said to them, nobody is served."""

    def act(fort: Fort) -> str:
        with socket.create_connection((HOST, fort.ports[listener]), timeout=20) as plain:
            got = b""
            with suppress(OSError):  # it may have been closed meanwhile
                for part in parts:
                    plain.sendall(part)
                plain.shutdown(socket.SHUT_WR)
                while data := plain.recv(1 << 16):
                    got += data
        return CLOSED if got[:1] in (b"", b"\x15", b"\x16") else f"{len(got)} bytes"

    return act


def _renegotiated(fort: Fort) -> str:
    """TLS 1.2, and a second handshake within the first: a message of one, in a record that is not one of the connection's."""
    context = fort.trusting()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    pipes = ssl.MemoryBIO(), ssl.MemoryBIO()
    secure = context.wrap_bio(*pipes, server_hostname=HOST)
    with socket.create_connection((HOST, fort.ports["OPEN"]), timeout=20) as plain:
        while True:
            try:
                secure.do_handshake()
                break
            except ssl.SSLWantReadError:
                plain.sendall(pipes[1].read())
                pipes[0].write(plain.recv(1 << 16))
        plain.sendall(pipes[1].read() + hello(b"\x03\x03"))
        with suppress(ConnectionError):
            while plain.recv(1 << 16):
                pass
    return CLOSED


THROWN: dict[str, tuple[str, bytes]] = {
    "a request in the clear": ("OPEN", ASKED),
    "a request in the clear where certificates are wanted": ("MUTUAL", ASKED),
    "a request in the clear where one logs in": ("ENCRYPTED", ASKED),
    "a handshake of SASL in the clear": ("ENCRYPTED", struct.pack(">ihhihh5s", 17, 17, 1, 1, -1, 5, b"PLAIN")),
    "HTTP": ("OPEN", b"GET / HTTP/1.1\r\n\r\n"),
    "a hello of SSL 2": ("OPEN", b"\x80\x2e\x01\x00\x02\x00\x15\x00\x00\x00\x10\x01\x00\x80" + bytes(34)),
    "a hello of SSL 3": ("OPEN", hello(b"\x03\x00")),
    "a hello of TLS 1.0": ("OPEN", hello(b"\x03\x01")),
    "a hello of TLS 1.1": ("OPEN", hello(b"\x03\x02")),
    "a hello with suites for export": ("OPEN", hello(b"\x03\x03", b"\x00\x03\x00\x06\x00\x08\x00\x14")),
    "half a hello": ("OPEN", hello(b"\x03\x03")[:20]),
    "a hello of no bytes": ("OPEN", b"\x16\x03\x01\x00\x00"),
    "a record longer than any": ("OPEN", b"\x16\x03\x01\xff\xff" + bytes(1000)),
    "data before a handshake": ("OPEN", b"\x17\x03\x03\x00\x20" + bytes(32)),
    "an alert before a handshake": ("OPEN", b"\x15\x03\x03\x00\x02\x02\x28"),
    "a change of ciphers at once": ("OPEN", b"\x14\x03\x03\x00\x01\x01" * 100),
    "a heartbeat that asks for memory": ("OPEN", b"\x18\x03\x02\x00\x03\x01\x40\x00"),
    "noise": ("OPEN", bytes(range(256)) * 20),
    "half a size": ("LOGIN", b"\0\0"),
    "half a frame": ("LOGIN", struct.pack(">i", 500) + b"\0\x11\0\x01"),
    "half a frame of a request": ("LOGIN", ASKED[:-3]),
    "nothing": ("LOGIN", b""),
}


def tls_tries() -> Iterator[Try]:
    for version in (ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1):
        yield Try("TLS", f"{version.name} alone", _old(version), CLOSED)
    yield Try("TLS", "suites without secrecy", _weak, CLOSED)
    yield Try("TLS", "another handshake within the first", _renegotiated, CLOSED)
    for name, (listener, data) in THROWN.items():
        yield Try("TLS", name, thrown(listener, data), CLOSED)
        yield Try(
            "TLS", f"{name}, byte after byte", thrown(listener, *(data[at : at + 1] for at in range(min(len(data), 40)))), CLOSED
        )


def right_wires() -> Iterator[Try]:
    """Who belongs there gets in."""
    yield Try("right", "alice by her certificate", asking_as(issued(common_name="alice", organization_name="Ottla")), "0 its song")
    yield Try("right", "TLS 1.2", entering_by("OPEN", lambda fort: None, ssl.TLSVersion.TLSv1_2), IN)
    yield Try(
        "right",
        "TLS and PLAIN",
        entering(lambda fort, line: line.plain("alice", PASSWORDS["alice"]), listener="ENCRYPTED", tls=True),
        "0 0 in",
    )
