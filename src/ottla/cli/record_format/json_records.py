"""Records as JSON objects, one a line: `ottla consume --json` prints them, and `ottla produce --json-lines` reads them. Pure.

The input can also be of rpk and of kcat -J:

| field | value |
|---|---|
| `value`, or kcat's `payload`; `key` | a string, null, or any other JSON value, whose compact text is sent; missing is null |
| `headers` | an object of such values, a list of `{"key": …, "value": …}`, or kcat's list `["name", "value", …]` |
| `partition` | a number; without it, the key selects the partition |
| `timestamp`, or kcat's `ts` | ms since 1970, or a time as text; without it, now |
| `topic`, `offset` and other facts about a record that was read | left out |

A value `{"base64": …}` is the bytes that it encodes: JSON has no other form of bytes that are not UTF-8. Objects with
`"control": true`, the markers of transactions, are no records.
"""

from __future__ import annotations

import base64
import json
from json.encoder import encode_basestring

from ottla.cli.record_format.forms import BadInput
from ottla.cli.record_format.input_records import Headers, InputRecord
from ottla.cli.record_format.output_template import NO_BATCH, BatchInfo
from ottla.inspection.json_values import BASE64, plain
from ottla.inspection.times import parse_time
from ottla.records.batches.record import ConsumerRecord

VALUES, TIMES = ("value", "payload"), ("timestamp", "ts")
CONTROL = "control"
FACTS = {
    "topic", "offset", "leader_epoch", "timestamp_type", "tstype", "broker", CONTROL, "producer_id", "producer_epoch",
    "key_schema_id", "value_schema_id", "delivery_count",
}  # fmt: skip
"""Fields that a reader adds. A record that is sent does not have them."""
KNOWN = {*VALUES, *TIMES, "key", "headers", "partition"}


def json_line(record: ConsumerRecord, batch: BatchInfo, key: object, value: object, *, name: str = "value") -> bytes:
    """Return the object of a record, with its key and value as they are decoded. `name` is the name of the value."""
    # Most keys and values are texts: an object of strings that are encoded one by one takes a fifth of json.dumps of a dict.
    headers = [{"key": header, "value": plain(data)} for header, data in record.headers]
    more = _delivery_text(record.delivery_count)
    if batch.is_control:
        more = f', "control": true, "producer_id": {batch.producer_id}, "producer_epoch": {batch.producer_epoch}'
    text = (
        f'{{"topic": {_json(record.topic)}, "partition": {record.partition}, "offset": {record.offset}, '
        f'"timestamp": {record.timestamp}, "key": {_json(plain(key))}, "{name}": {_json(plain(value))}, '
        f'"headers": {_json(headers) if headers else "[]"}{more}}}'
    )
    return text.encode("utf-8", "surrogatepass")


def json_lines(records: list[ConsumerRecord]) -> list[bytes]:
    """Return what `json_line` does for records whose keys and values are not decoded, in a third of the time."""
    found = []
    where: tuple[str, int] | None = None
    head = ""
    for record in records:
        if record.where is not where:
            where = record.where
            head = f'{{"topic": {_json(where[0])}, "partition": {where[1]}, "offset": '
            tail = f'"headers": []{_delivery_text(record.delivery_count)}}}'
        key, value = record.key, record.value
        try:
            if record.headers:
                raise ValueError
            key_text = "null" if key is None else encode_basestring(key.decode())
            value_text = "null" if value is None else encode_basestring(value.decode())
        except ValueError:  # bytes that are no text, or headers, are rare
            found.append(json_line(record, NO_BATCH, key, value))
            continue
        text = f'{head}{record.offset}, "timestamp": {record.timestamp}, "key": {key_text}, "value": {value_text}, {tail}'
        found.append(text.encode("utf-8", "surrogatepass"))
    return found


def _delivery_text(delivery_count: int | None) -> str:
    """Return the end of an object of a record that a share group has delivered."""
    return "" if delivery_count is None else f', "delivery_count": {delivery_count}'


def _json(found: object) -> str:
    return encode_basestring(found) if isinstance(found, str) else json.dumps(found, ensure_ascii=False)


def json_record(line: bytes) -> InputRecord | None:
    """Parse a line. Return None for an empty line, and for a transaction marker. Raises `BadInput`."""
    if not line.strip():
        return None
    try:
        # kcat prints bytes that are not UTF-8 unchanged: each of them becomes one surrogate, and a byte again.
        found = json.loads(line.decode("utf-8", "surrogateescape"))
    except (ValueError, RecursionError) as error:
        raise BadInput(f"it is not JSON ({error}): write an object with key, value and headers.") from None
    if not isinstance(found, dict):
        raise BadInput("it is JSON, and no object: write an object with key, value and headers.")
    if unknown := found.keys() - KNOWN - FACTS:
        raise BadInput(f"records have no field {sorted(unknown)[0]!r}: use {', '.join(sorted(KNOWN))}.")
    if found.get(CONTROL) is True:
        return None
    value = next((name for name in VALUES if name in found), VALUES[0])
    return InputRecord(
        _encoded(found.get(value), value),
        _encoded(found.get("key"), "key"),
        _headers(found.get("headers")),
        _partition(found.get("partition")),
        _timestamp(next((found[name] for name in TIMES if name in found), None)),
    )


def _encoded(value: object, name: str) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, dict) and value.keys() == {BASE64}:
        try:
            return base64.b64decode(value[BASE64], validate=True)
        except (ValueError, TypeError):
            raise BadInput(f"{name} is not base64: {str(value[BASE64])[:20]!r}.") from None
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise BadInput(f'{name} has half a surrogate pair, which UTF-8 cannot express: send bytes as {{"base64": …}}.') from None


def _headers(found: object) -> Headers:
    if found is None:
        return ()
    if isinstance(found, dict):
        return tuple((name, _encoded(value, f"header {name!r}")) for name, value in found.items())
    if isinstance(found, list) and all(isinstance(each, dict) and isinstance(each.get("key"), str) for each in found):
        return tuple((each["key"], _encoded(each.get("value"), f"header {each['key']!r}")) for each in found)
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
