"""The frame of values in the format of schema registries: a zero byte, the schema's id in four bytes, then the encoded value.

A Protobuf value has, between id and value, the path of its message in the schema's file: the number of indexes, then the indexes,
as zigzag varints. A path of one zero byte means the first message.
"""

from __future__ import annotations

from collections.abc import Iterable

MAGIC = b"\0"
FRAME_BYTES = 5
FIRST_MESSAGE = (0,)
FILE_TAG = 0x0A
"""The byte before each file in a set of descriptors."""


def framed_id(data: bytes) -> int | None:
    """Return the schema id in a value's frame; None for a value without a frame."""
    return int.from_bytes(data[1:FRAME_BYTES], "big") if data[:1] == MAGIC and len(data) >= FRAME_BYTES else None


def frame(schema_id: int) -> bytes:
    """Return the frame with this schema id, to be put before an encoded value."""
    return MAGIC + schema_id.to_bytes(FRAME_BYTES - 1, "big")


def path_bytes(path: tuple[int, ...]) -> bytes:
    """Return the path of a Protobuf message, encoded as in the values of schema registries."""
    return b"\0" if path == FIRST_MESSAGE else b"".join(varint(2 * number) for number in (len(path), *path))


def read_path(data: bytes) -> tuple[tuple[int, ...], int]:
    """Return the path of a Protobuf message at the beginning of `data`, and the position after it.

    Raises `ValueError` if it is cut off.
    """
    count, at = _zigzag(data, 0)
    path = []
    for _ in range(min(count, len(data))):
        index, at = _zigzag(data, at)
        path.append(index)
    return tuple(path) if count else FIRST_MESSAGE, at


def varint(value: int) -> bytes:
    """Encode a nonnegative number as a varint: groups of seven bits, the lowest first."""
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(made) + bytes([value])


def set_of_files(files: Iterable[bytes]) -> bytes:
    """Return one descriptor set that contains these file descriptors."""
    return b"".join(bytes([FILE_TAG]) + varint(len(file)) + file for file in files)


def files_of_set(data: bytes) -> list[bytes]:
    """Return the file descriptors in a set. Raises `ValueError` for other data."""
    files, at = [], 0
    while at < len(data):
        if data[at] != FILE_TAG:
            raise ValueError("it has something else than files")
        size, start = _read_varint(data, at + 1)
        at = start + size
        if at > len(data):
            raise ValueError("it ends early")
        files.append(data[start:at])
    return files


def _zigzag(data: bytes, at: int) -> tuple[int, int]:
    try:
        value, at = _read_varint(data, at)
    except ValueError:
        raise ValueError("it ends within the numbers that name its message of Protobuf") from None
    return (value >> 1) ^ -(value & 1), at


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 64:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at
    raise ValueError("it ends early")
