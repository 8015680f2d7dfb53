"""The exceptions of the codecs: the fault is the peer's (`Malformed`) or the caller's (`Unencodable`)."""

from __future__ import annotations

from typing import Final

NO_VERSION: Final = -1
"""The number that stands for the version of Kafka 0.7's messages, which have no version."""


def _place(message: str, version: int, path: str) -> str:
    what = message if version == NO_VERSION else f"{message} v{version}"
    return f"{what}, {path}" if path else what


class Malformed(ValueError):
    """The peer's bytes do not follow the schema: the only exception that `decode` raises for its input.

    `message` and `version` say which message was read. `path` is the field, such as `topics[2].partitions[0].records`, or empty for
    the message itself. `position` is the index of the byte where reading stopped, and `reason` the fault there.
    """

    def __init__(self, message: str, version: int, path: str, position: int, reason: str) -> None:
        super().__init__(f"{_place(message, version, path)} at byte {position}: {reason}")
        self.message = message
        self.version = version
        self.path = path
        self.position = position
        self.reason = reason


class Unencodable(ValueError):
    """Raised by `encode` for a value that the requested version cannot contain, with the message, the version and the field's
    path.
    """

    def __init__(self, message: str, version: int, path: str, reason: str) -> None:
        super().__init__(f"{_place(message, version, path)}: {reason}")
        self.message = message
        self.version = version
        self.path = path
        self.reason = reason
