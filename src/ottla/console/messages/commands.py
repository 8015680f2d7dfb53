"""Messages and searches as commands of `ottla` and kcat, which a shell takes as they are. Pure.

A value that a shell or kcat would change has no command of kcat: control characters, bytes that are not UTF-8, nulls.
"""

from __future__ import annotations

import base64
import json
import re
import shlex
from collections.abc import Sequence

from ottla.console.messages.selection import NEWEST, OFFSET, OLDEST, TAIL, TIME, Selection
from ottla.inspection.times import format_time

Headers = Sequence[tuple[str, bytes | None]]


def read_message(servers: str, topic: str, partition: int, offset: int) -> list[str]:
    """Return the commands that print one message."""
    return [
        _ottla("consume", topic, "-b", servers, "-p", str(partition), "-o", str(offset), "-n", "1"),
        _command("kcat", "-C", "-b", servers, "-t", topic, "-p", str(partition), "-o", str(offset), "-c", "1"),
    ]


def produce_message(
    servers: str, topic: str, partition: int | None, key: bytes | None, value: bytes | None, headers: Headers
) -> list[str]:
    """Return the commands that produce a message again: for kcat only what it can send unchanged."""
    found: dict[str, object] = {"key": _json(key), "value": _json(value)}
    if headers:
        found["headers"] = [{"key": name, "value": _json(data)} for name, data in headers]
    if partition is not None:
        found["partition"] = partition
    line = json.dumps(found, ensure_ascii=False)
    made = [f"printf '%s\\n' {_quoted(line)} | {_ottla('produce', topic, '-b', servers, '--json-lines')}"]
    kcat = ["kcat", "-P", "-b", servers, "-t", topic, "-D", ""]
    if partition is not None:
        kcat += ["-p", str(partition)]
    if (
        value is None
        or not _is_text(value)
        or not all(data is not None and _is_text(data) and "=" not in name for name, data in headers)
    ):
        return made
    if key is not None:
        if not _is_text(key):
            return made
        kcat += ["-k", key.decode()]
    for name, data in headers:
        kcat += ["-H", f"{name}={(data or b'').decode()}"]
    return [*made, f"printf '%s' {_quoted(value.decode())} | {_command(*kcat)}"]


def search(servers: str, selection: Selection) -> list[str]:
    """Return the commands that read what a page shows; kcat's only without conditions, which it does not have."""
    partitions = ["-p", ",".join(map(str, selection.partitions))] if selection.partitions else []
    theirs, ours = _places(selection)
    made = [_ottla("consume", selection.topic, "-b", servers, *partitions, *ours, *_conditions(selection))]
    if not selection.is_selective and len(selection.partitions) <= 1:
        made.append(_command("kcat", "-C", "-b", servers, "-t", selection.topic, *partitions, *theirs))
    return made


def _places(selection: Selection) -> tuple[list[str], list[str]]:
    """Return the options of kcat and of ottla for the place at which a selection begins, and the number of its messages."""
    count = str(selection.limit)
    if selection.start == TAIL:
        return ["-o", "end"], ["-o", "end"]
    if selection.start == NEWEST and selection.is_selective:
        return [], ["-o", "start", "-e"]  # the page goes back until it has found enough, which no option does
    if selection.start == NEWEST:
        return ["-o", f"-{count}", "-e"], ["-o", f"-{count}", "-e"]
    number = selection.number
    theirs = {OLDEST: "beginning", OFFSET: str(number), TIME: f"s@{number}"}[selection.start]
    ours = {OLDEST: "start", OFFSET: str(number), TIME: f"@{format_time(number, utc=True)}"}[selection.start]
    return ["-o", theirs, "-c", count, "-e"], ["-o", ours, "-n", count, "-e"]


def _conditions(selection: Selection) -> list[str]:
    filters = [selection.filter] if selection.filter else []
    if selection.key and not selection.key.startswith("0x"):
        filters.append(f"key == {json.dumps(selection.key)}")
    found = []
    if filters:
        found.append(_option("--filter", filters[0] if len(filters) == 1 else " and ".join(f"({each})" for each in filters)))
    if selection.text:
        found.append(_option("--grep", f"(?i){re.escape(selection.text)}"))
    if selection.has_control:
        found.append("--print-control")
    return found if selection.is_committed else [*found, "--isolation", "uncommitted"]


def _option(name: str, value: str) -> str:
    return f"{name}={value}"  # as two words, a value that begins with a dash would be another option


def _ottla(name: str, topic: str, *options: str) -> str:
    return _command("ottla", name, *options, "--", topic) if topic.startswith("-") else _command("ottla", name, topic, *options)


def _command(*words: str) -> str:
    return " ".join(map(_quoted, words))


def _quoted(text: str) -> str:
    """Return a word quoted for a shell. Control characters are escaped, because a terminal acts on pasted ones."""
    if text.isprintable():
        return shlex.quote(text)
    escaped = "".join(_shell_escape(char) for char in text)
    return f"$'{escaped}'"


def _shell_escape(char: str) -> str:
    if char in "\\'":
        return "\\" + char
    if char.isprintable():
        return char
    return "".join(f"\\x{byte:02x}" for byte in char.encode("utf-8", "surrogateescape"))


def _is_text(data: bytes) -> bool:
    """Return whether a command's word can be these bytes."""
    try:
        return "\0" not in data.decode()
    except UnicodeDecodeError:
        return False


def _json(data: bytes | None) -> object:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}
