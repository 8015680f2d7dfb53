"""The table of APIs by key: their messages, versions and headers.

Keys and names come from `releases`, all other data from the declarations in `ottla.wire.api`. A declaration is imported on first
use, so that this module is imported quickly. Other modules decide which APIs a broker serves.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from importlib import import_module
from typing import Final

from ottla.wire.releases import NAMES_BY_KEY
from ottla.wire.schema import Message


class Api:
    """One API: its key, its name, and its request and response classes."""

    def __init__(self, key: int, name: str) -> None:
        self.key: Final = key
        self.name: Final = name

    def __repr__(self) -> str:
        return f"Api({self.key}, {self.name!r})"

    @property
    def module(self) -> str:
        """Return the name of the module in `ottla.wire.api` that declares the API's messages."""
        return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", self.name).lower()

    @cached_property
    def request(self) -> type[Message]:
        return self._message("Request")

    @cached_property
    def response(self) -> type[Message]:
        return self._message("Response")

    def _message(self, kind: str) -> type[Message]:
        found: type[Message] = getattr(import_module(f"ottla.wire.api.{self.module}"), self.name + kind)
        return found

    @cached_property
    def versions(self) -> range:
        """Return all versions that were ever valid."""
        return self.request.WIRE.valid

    @cached_property
    def flexible(self) -> range:
        """Return the versions whose bodies and headers have tagged fields (KIP-482)."""
        return self.request.WIRE.flexible

    @cached_property
    def request_headers(self) -> tuple[int, ...]:
        """Return the request header's version for each API version: 2 with tagged fields, else 1, except `REQUEST_HEADERS`."""
        return tuple(REQUEST_HEADERS.get((self.key, v), 2 if v in self.flexible else 1) for v in range(self.versions.stop))

    @cached_property
    def response_headers(self) -> tuple[int, ...]:
        """Return the response header's version for each API version: 1 with tagged fields, else 0, except `RESPONSE_HEADERS`."""
        return tuple(RESPONSE_HEADERS.get(self.key, 1 if v in self.flexible else 0) for v in range(self.versions.stop))


REQUEST_HEADERS: Final = {(7, 0): 0}
"""The exceptional request header versions, by (API key, version). ControlledShutdown 0 has no client id."""
RESPONSE_HEADERS: Final = {18: 0}
"""The exceptional response header versions, by API key. ApiVersions never has tags, as clients do not yet have the versions."""
FALLBACK_VERSIONS: Final = {18: 0}
"""The version of the response to a request with a version that is too new, by API key.

A broker closes the connection after such a request of any other API (KIP-511).
"""

API: Final = {key: Api(key, name) for key, name in NAMES_BY_KEY.items()}


class _Versions(Mapping[int, range]):
    def __getitem__(self, key: int) -> range:
        return API[key].versions

    def __contains__(self, key: object) -> bool:
        return key in API

    def __iter__(self) -> Iterator[int]:
        return iter(API)

    def __len__(self) -> int:
        return len(API)


VERSIONS: Final[Mapping[int, range]] = _Versions()
"""All versions that were ever valid, by API key. Reading an entry imports the API's declaration."""
