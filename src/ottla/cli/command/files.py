"""The files that arguments name, read as text up to a size."""

from __future__ import annotations

from ottla.errors import KafkaError, SettingError
from ottla.properties import parse_properties

MOST_BYTES = 64 * 1024 * 1024
"""The size of a file beyond which it cannot be the one that is meant, such as /dev/zero."""


def read_text(path: str, wanted: str, failure: type[KafkaError] = SettingError) -> str:
    """Return the text of a file. Raises `failure` with a sentence, in which `wanted` describes a file that can be read."""
    try:
        with open(path, "rb") as file:
            data = file.read(MOST_BYTES + 1)
        if len(data) <= MOST_BYTES:
            return data.decode()
        reason = f"it has more than {MOST_BYTES} bytes"
    except OSError as error:
        reason = str(error.strerror)
    except UnicodeDecodeError:
        reason = "it is not UTF-8"
    raise failure(f"Cannot read {path}: {reason}; name {wanted}.")


def read_properties(path: str, wanted: str = "a readable properties file") -> dict[str, str]:
    """Return the settings in a properties file, by name. Raises `SettingError`."""
    text = read_text(path, wanted)
    try:
        return parse_properties(text)
    except SettingError as error:
        raise SettingError(f"{path}, {error}") from None
