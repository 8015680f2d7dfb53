"""Strangers at listeners with TLS and logins: handshakes that stop, logins that never end, and guesses without end."""

from __future__ import annotations

import os
import struct

from tests.siege.attack import attack
from tests.siege.site import Site, churn, hold

HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + os.urandom(32)
"""The beginning of a handshake of TLS."""


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def handshake(mechanism: bytes) -> bytes:
    return framed(struct.pack(">hhihh", 17, 1, 1, -1, len(mechanism)) + mechanism)


def token(data: bytes) -> bytes:
    return framed(struct.pack(">hhihi", 36, 0, 2, -1, len(data)) + data)


@attack("10 000 connections begin a TLS handshake and stop", security="SSL")
def half_open_handshakes(site: Site) -> None:
    hold(site, 10_000, first=HELLO)


@attack("connections come, begin a TLS handshake and go, as fast as can be", security="SSL", processes=2, minor=True)
def handshakes_broken_off(site: Site) -> None:
    churn(site, HELLO)


@attack("5 000 connections name a SASL mechanism, and never log in", security="SASL_PLAINTEXT")
def logins_that_never_end(site: Site) -> None:
    hold(site, 5000, first=handshake(b"SCRAM-SHA-512") + token(b"n,,n=alice,r=abc"))


@attack("connections come, guess a password and are refused, as fast as can be", security="SASL_PLAINTEXT", processes=2)
def guessed_passwords(site: Site) -> None:
    churn(site, handshake(b"PLAIN") + token(b"\0alice\0guess"), reads=True)


@attack("1 000 connections announce 64 KB before a login and send a byte a second", security="SASL_PLAINTEXT", minor=True)
def frames_before_logins(site: Site) -> None:
    hold(site, 1000, first=struct.pack(">i", 65_536) + bytes(1000), drip=b"\0")
