"""The file `partition.metadata` in a partition's directory, which names the id of its topic (KIP-516)."""

from __future__ import annotations

import base64
import logging
from collections.abc import Sequence
from contextlib import suppress

from ottla.log.names import PARTITION_METADATA
from ottla.ports import Disk, StorageFailed

log = logging.getLogger("ottla.log")

NO_TOPIC_ID = bytes(16)
"""The id of a topic that has none, because a release before KIP-516 created it."""


def encode_topic_id(topic_id: bytes) -> str:
    """Return the id of 16 bytes as Kafka writes it: base64 for URLs, without padding."""
    return base64.urlsafe_b64encode(topic_id).decode().rstrip("=")


def parse_metadata(data: bytes) -> dict[str, str]:
    """Return the fields in the file, by name. Lines of another form are ignored."""
    return dict(pair for line in data.decode(errors="replace").splitlines() if len(pair := line.split(": ", 1)) == 2)


def newer_version(fields: dict[str, str]) -> str:
    """Return a message if the version in the file is newer than this program's, else ""."""
    version = fields.get("version", "0")
    is_newer = version.isdecimal() and int(version) > 0
    return f"the partition has format {version}, newer than 0: use the newer version that wrote it." if is_newer else ""


def check_topic_id(disk: Disk, path: str, names: Sequence[str], topic_id: bytes) -> None:
    """Write `partition.metadata` (KIP-516) if it lacks the topic id.

    Raises `StorageFailed` for the directory of another topic of the same name, and for a newer format.
    """
    if topic_id == NO_TOPIC_ID:
        return
    text = encode_topic_id(topic_id)
    file = f"{path}/{PARTITION_METADATA}"
    wanted = f"version: 0\ntopic_id: {text}".encode()
    stored = disk.read_file(file).rstrip(b"\0") if PARTITION_METADATA in names else b""  # zeros: unwritten after a power cut
    if stored == wanted:
        return
    found = parse_metadata(stored)
    if sentence := newer_version(found):
        raise StorageFailed(file, sentence)
    if found.get("topic_id", text) != text and not wanted.startswith(stored):
        sentence = f"the directory belongs to another topic of that name, not to the one with id {text}"
        raise StorageFailed(file, f"{sentence}: restore the right one, or delete the topic; this one is ignored.")
    if "topic_id" not in found and stored and not wanted.startswith(stored):
        log.warning("%s cannot be parsed and is rewritten", file)
    if found.get("topic_id") != text:
        # Not synced: a crash may leave part of it, or nothing. On a full disk the next start writes it.
        with suppress(StorageFailed):
            disk.write_file(file, wanted, sync=False)
