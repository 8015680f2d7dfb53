"""What a try is, and what comes of one."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

from ottla.wire.schema import Struct
from tests.support.fort import CANARY, NOTE, SONG, Fort, Line

CLOSED = "closed"
IN = "in"
UNKNOWN = b"an unknown topic"
"""The id of none."""
LOST = (EOFError, OSError)
"""The broker ended it; errors of TLS are among them."""


class Try(NamedTuple):
    """One way to get in or past a rule: `act` returns what came of it, which must be `must`, word by word."""

    kind: str
    name: str
    act: Callable[[Fort], str]
    must: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.name}"


Step = Callable[[Fort, Line], object]


def entering(*steps: Step, listener: str = "LOGIN", tls: bool = False) -> Callable[[Fort], str]:
    """Say all this on a new connection, then ask for something: what was heard, and whether somebody is in."""

    def act(fort: Fort) -> str:
        with fort.line(listener, fort.trusting() if tls else None) as line:
            line.socket.settimeout(10)
            try:
                for step in steps:
                    step(fort, line)
                line.heard.append(IN if line.is_served() else "")
            except LOST:
                line.heard.append(CLOSED)
            return " ".join([*line.heard, *leaks(fort, line)])

    return act


def asking(key: int, version: int, /, by: str = "mallory", **values: Any) -> Callable[[Fort], str]:
    """One request by somebody who has logged in: the errors of its answer. What names "ids" of topics stands for those."""

    def act(fort: Fort) -> str:
        with fort.line().login(by) as line:
            line.sent = line.got = b""
            return answered(fort, line, key, version, values)

    return act


def answered(fort: Fort, line: Line, key: int, version: int, values: dict[str, Any]) -> str:
    try:
        told = sorted(codes(line.ask(key, version, **with_ids(fort, values)), version))
        heard = [str(code) for code in told] or ["nothing"]
    except LOST:
        heard = [CLOSED]
    return " ".join([*heard, *leaks(fort, line)])


def with_ids(fort: Fort, value: Any) -> Any:
    """The same with the ids of topics for their names, and what else only the fort knows."""
    if isinstance(value, dict):
        return {
            name: fort.ids.get(one, UNKNOWN) if name == "topic_id" and isinstance(one, str) else with_ids(fort, one)
            for name, one in value.items()
        }
    if callable(value):
        return value(fort)
    return [with_ids(fort, one) for one in value] if isinstance(value, list) else value


def codes(found: Any, version: int) -> set[int]:
    """All error codes of an answer."""
    if isinstance(found, list):
        return set().union(*(codes(one, version) for one in found))
    told = set[int]()
    for field in found.WIRE.fields if isinstance(found, Struct) else ():
        value = getattr(found, field.name)
        if version not in field.present or field.name == "topic_config_error_code":
            continue
        told |= {value} if field.name.endswith("error_code") else codes(value, version)
    return told


def leaks(fort: Fort, line: Line) -> list[str]:
    """What of the canary was told to who did not say it."""
    telling = {"its song": SONG, "its note": NOTE.encode(), "its name": CANARY.encode(), "its id": fort.ids[CANARY]}
    telling["its token"] = fort.tokens["alice"][1]
    return [what for what, data in telling.items() if data in line.got and data not in line.sent]


def drained(line: Line) -> None:
    """Hear all until the end."""
    with suppress(ssl.SSLError, ConnectionError):
        while data := line.socket.recv(1 << 16):
            line.got += data
    raise EOFError
