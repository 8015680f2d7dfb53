"""A parser of X.509 certificates in DER: the subject as Java writes it, and the validity period.

Callers verify the certificate, or only display it. Depends on neither TLS nor settings.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import NamedTuple

SEQUENCE, VERSION = 0x30, 0xA0
UTC_TIME = 0x17
ENCODINGS = {0x0C: "utf-8", 0x13: "ascii", 0x14: "latin-1", 0x16: "ascii", 0x1C: "utf-32-be", 0x1E: "utf-16-be"}
"""The encoding of each DER string type."""

KEYWORDS = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
"""Attribute types with a short name in RFC 2253; other types are written as object identifiers."""

ESCAPED = ',=+<>#;"\\'


class Certificate(NamedTuple):
    """A certificate; `subject` has the form of RFC 2253: CN=client,O=Example."""

    subject: str
    not_before: datetime
    not_after: datetime


class Value(NamedTuple):
    """One value in DER encoding: its tag, its content, and all of its bytes."""

    tag: int
    content: bytes
    whole: bytes


def read_certificate(der: bytes) -> Certificate:
    """Parse a certificate. Raises ValueError if the bytes are not a certificate."""
    try:
        (certificate,) = _values(der)
        fields = [field for field in _values(next(_values(certificate.content)).content) if field.tag != VERSION]
        _, _, _, validity, subject, *_ = fields
        not_before, not_after = (_time(value) for value in _values(validity.content))
        return Certificate(_name(subject.content), not_before, not_after)
    except (IndexError, StopIteration, UnicodeDecodeError) as error:
        raise ValueError("is not a certificate") from error


def _values(data: bytes) -> Iterator[Value]:
    """Yield the DER values in `data`. Raises ValueError or IndexError."""
    position = 0
    while position < len(data):
        start, tag, size = position, data[position], data[position + 1]
        position += 2
        if size & 0x80:
            digits = size & 0x7F
            size = int.from_bytes(data[position : position + digits], "big")
            position += digits
        end = position + size
        if end > len(data):
            raise ValueError("is cut off")
        yield Value(tag, data[position:end], data[start:end])
        position = end


def _time(value: Value) -> datetime:
    text = value.content.decode("ascii")
    if value.tag == UTC_TIME:
        text = ("19" if text[:2] >= "50" else "20") + text
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)


def _name(data: bytes) -> str:
    """Return a name in the form of RFC 2253, last part first."""
    parts = ["+".join(_attribute(each.content) for each in _values(part.content)) for part in _values(data)]
    return ",".join(reversed(parts))


def _attribute(data: bytes) -> str:
    kind, value = _values(data)
    number = _object_identifier(kind.content)
    if number not in KEYWORDS or value.tag not in ENCODINGS:
        return f"{number}=#{value.whole.hex()}"
    return f"{KEYWORDS[number]}={_escape(value.content.decode(ENCODINGS[value.tag]))}"


def _escape(text: str) -> str:
    inner = text.strip(" ")
    start = len(text) - len(text.lstrip(" "))
    escaped = "".join("\\00" if each == "\0" else f"\\{each}" if each in ESCAPED else each for each in inner)
    return "\\ " * start + escaped + "\\ " * (len(text) - start - len(inner))


def _object_identifier(data: bytes) -> str:
    numbers, number = list[int](), 0
    for byte in data:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))
