"""The hosts and ports of `bootstrap_servers`."""

from __future__ import annotations

import re

from ottla.client.errors import SettingError

DEFAULT_PORT = 9092
_HOST = re.compile(r"\[[0-9A-Fa-f:.]+(?:%\w+)?\]|(?:[^\[\]/\s.\ud800-\udfff]{1,63}\.)*[^\[\]/\s.\ud800-\udfff]{1,63}\.?")
"""An address in brackets, or a name of any script with labels of up to 63 characters, or an address without brackets."""


def parse_servers(servers: str) -> list[tuple[str, int]]:
    """Parse "host:port,[::1]:9092" to [(host, port)]. Raises `SettingError`."""
    found = [_parse(word.strip()) for word in servers.split(",") if word.strip()]
    if not found:
        raise SettingError("bootstrap_servers is empty: give it as host:port, several separated by commas.")
    return found


def _parse(word: str) -> tuple[str, int]:
    host, colon, port = word.rpartition(":")
    if not colon or (host and word.endswith("]")) or (":" in host and not host.endswith("]")):
        host, port = word, str(DEFAULT_PORT)
    if not _HOST.fullmatch(host) or not re.fullmatch("[0-9]{1,5}", port) or not 0 < int(port) < 65536:
        raise SettingError(f"bootstrap_servers: {word!r} is not a host and port; write it as host:9092.")
    return host.strip("[]"), int(port)
