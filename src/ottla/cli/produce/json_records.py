"""Records as JSON objects, one a line: those that `ottla consume --json` prints, and those of rpk and of kcat -J. Pure.

| field | value |
|---|---|
| `value`, or kcat's `payload`; `key` | a string, null, or any other JSON value, whose compact text is sent; missing is null |
| `value_base64`, `key_base64` | bytes that are no UTF-8 |
| `headers` | an object of strings, a list of `{"key": …, "value": …}` (or `value_base64`), or kcat's list `["name", "value", …]` |
| `partition` | a number; without it, the key selects the partition |
| `timestamp`, or kcat's `ts` | ms since 1970, or a time as text; without it, now |
| `topic`, `offset` and other facts about a record that was read | left out |
"""

from __future__ import annotations

import base64
import json
from typing import Any

from ottla.cli.command.times import parse_time
from ottla.cli.produce.records import BadInput, Headers, InputRecord

VALUES, TIMES = ("value", "payload"), ("timestamp", "ts")
BASE64 = "_base64"
FACTS = {
    "topic", "offset", "leader_epoch", "timestamp_type", "tstype", "broker", "time", "size", "key_size", "value_size",
    "key_schema_id", "value_schema_id", "key_format", "value_format", "producer_id", "producer_epoch", "attributes",
}  # fmt: skip
"""Fields that a reader adds. A record that is sent does not have them."""
KNOWN = {*VALUES, *TIMES, "key", "headers", "partition", *(name + BASE64 for name in ("value", "key"))}


def json_record(line: bytes) -> InputRecord | None:
    """Return the record of a line; None for an empty line. Raises `BadInput`."""
    if not line.strip():
        return None
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"it is not JSON ({error}): write an object with key, value and headers.") from None
    if not isinstance(found, dict):
        raise BadInput("it is JSON, and no object: write an object with key, value and headers.")
    if unknown := found.keys() - KNOWN - FACTS:
        raise BadInput(f"records have no field {sorted(unknown)[0]!r}: use {', '.join(sorted(KNOWN))}.")
    value = next((name for name in VALUES if name in found), VALUES[0])
    return InputRecord(
        _bytes(found, value),
        _bytes(found, "key"),
        _headers(found.get("headers")),
        _partition(found.get("partition")),
        _timestamp(next((found[name] for name in TIMES if name in found), None)),
    )


def _bytes(found: dict[str, Any], name: str) -> bytes | None:
    """Return a field of an object as bytes, from its text or from base64."""
    encoded = found.get(name + BASE64)
    if encoded is None:
        return _encoded(found.get(name), name)
    try:
        return base64.b64decode(encoded, validate=True)
    except (ValueError, TypeError):
        raise BadInput(f"{name}{BASE64} is not base64: {str(encoded)[:20]!r}.") from None


def _encoded(value: object, name: str) -> bytes | None:
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise BadInput(f"{name} has half a surrogate pair, which UTF-8 cannot express: send it as {name}{BASE64}.") from None


def _headers(found: object) -> Headers:
    if found is None:
        return ()
    if isinstance(found, dict):
        return tuple((name, _encoded(value, f"header {name!r}")) for name, value in found.items())
    if isinstance(found, list) and all(isinstance(each, dict) and isinstance(each.get("key"), str) for each in found):
        return tuple((each["key"], _bytes(each, "value")) for each in found)
    if isinstance(found, list) and len(found) % 2 == 0 and all(isinstance(name, str) for name in found[::2]):
        pairs = zip(found[::2], found[1::2], strict=True)
        return tuple((name, _encoded(value, f"header {name!r}")) for name, value in pairs)
    raise BadInput('headers are no object and no list of {"key": …, "value": …}.')


def _partition(found: object) -> int | None:
    if found is None or (type(found) is int and found >= 0):
        return found
    raise BadInput(f"partition is {json.dumps(found)[:20]}: a number from 0 on is possible, or null.")


def _timestamp(found: object) -> int | None:
    if found is None or found == -1:
        return None
    if type(found) is int and 0 <= found < 1 << 63:
        return found
    try:
        return parse_time(str(found))
    except ValueError as error:
        raise BadInput(f"the timestamp {error}.") from None
