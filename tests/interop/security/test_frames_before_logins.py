"""What strangers can send a listener with SASL: little, and never twice."""

from __future__ import annotations

import struct

import pytest

from tests.interop.security.conftest import Users
from tests.support.frames import METADATA, Raw, metadata_v1


@pytest.mark.rows(1, seconds=2)
@pytest.mark.parametrize("size", [64 * 1024 + 1, 1 << 20, (1 << 31) - 1, -1])
def test_a_long_frame_ends_the_connection_before_it_has_come(users: Users, size: int) -> None:
    with Raw(users.login) as raw:
        raw.send(struct.pack(">i", size) + b"\0\x11")
        assert raw.is_closed()


def test_a_request_before_a_login_ends_the_connection(users: Users) -> None:
    with Raw(users.login) as raw, pytest.raises(EOFError):
        raw.ask(METADATA, 1, metadata_v1("t"))


def test_requests_behind_a_failed_login_are_not_served(users: Users) -> None:
    handshake = struct.pack(">hhihh5s", 17, 1, 1, -1, 5, b"PLAIN")
    guess = b"\0alice\0guess"
    token = struct.pack(">hhihi", 36, 0, 2, -1, len(guess)) + guess
    asked = struct.pack(">hhih", METADATA, 1, 3, -1) + metadata_v1("t")
    with Raw(users.login) as raw:
        raw.send(b"".join(struct.pack(">i", len(frame)) + frame for frame in (handshake, token, asked, asked)))
        assert [struct.unpack_from(">ih", raw.frame()) for _ in range(2)] == [(1, 0), (2, 58)]
        assert raw.is_closed()
