"""The levels of a broker's features: raw requests that ask for them and change them."""

from __future__ import annotations

import socket
import time
from typing import Any, NamedTuple, Self

from bench import raw
from ottla.wire.api.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.api.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from ottla.wire.errors import error_name
from ottla.wire.framing import FrameHeader, decode_response, encode_request
from ottla.wire.schema import Message

TRANSACTIONS, GROUPS = "transaction.version", "group.version"
SHARED = (GROUPS, TRANSACTIONS)
UPGRADE, SAFE, UNSAFE = 1, 2, 3

Update = tuple[str, int, int]
"""(feature, level, upgrade type; before version 1 whether a downgrade is allowed)."""


class Case(NamedTuple):
    """The level of transactions before, and the request."""

    before: int
    version: int
    updates: tuple[Update, ...]
    validate_only: bool = False

    def __str__(self) -> str:
        trial = ", only validated" if self.validate_only else ""
        return f"at {self.before}: UpdateFeatures {self.version} {list(map(list, self.updates))}{trial}"


class FeatureLevels:
    """Asks a broker about the levels of features, and changes them, with raw requests."""

    def __init__(self, address: str) -> None:
        self._connection: socket.socket = raw.connect(address)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def ask(self, version: int, body: Message) -> Any:
        key = body.WIRE.key
        self._connection.sendall(b"".join(encode_request(FrameHeader(key, version, 1, "raw"), body)))
        return decode_response(key, version, raw.reply(self._connection))[1]

    def told(self, version: int = 4) -> ApiVersionsResponse:
        response: ApiVersionsResponse = self.ask(
            version, ApiVersionsRequest(client_software_name="raw", client_software_version="1")
        )
        return response

    def levels(self) -> dict[str, list[int]]:
        found = {each.name: [each.min_version_level, each.max_version_level] for each in self.told().finalized_features}
        return {name: found[name] for name in SHARED if name in found}

    def update(self, case: Case) -> UpdateFeaturesResponse:
        updates = []
        for name, level, kind in case.updates:
            told: dict[str, Any] = {"upgrade_type": kind} if case.version else {"allow_downgrade": kind != UPGRADE}
            updates.append(UpdateFeaturesRequest.FeatureUpdateKey(feature=name, max_version_level=level, **told))
        body = UpdateFeaturesRequest(feature_updates=updates)
        if case.version:
            body.validate_only = case.validate_only
        response: UpdateFeaturesResponse = self.ask(case.version, body)
        return response

    def set(self, **wanted: int) -> None:
        """Let features have these levels, whatever they have."""
        for name, level in wanted.items():
            for kind in (UPGRADE, SAFE):
                self.update(Case(0, 2, ((name, level, kind),)))
        self.settled(wanted)

    def settled(self, wanted: dict[str, int]) -> dict[str, list[int]]:
        """The levels, once they are those wanted: brokers of Apache Kafka tell them a little after the controller has answered."""
        expected = {name: [level, level] for name, level in wanted.items() if level}
        for _ in range(200):
            levels = self.levels()
            if {name: level for name, level in levels.items() if name in wanted} == expected:
                break
            time.sleep(0.01)
        return levels

    def answer(self, case: Case) -> list[Any]:
        before = {GROUPS: 1, TRANSACTIONS: case.before}
        self.set(**before)
        epoch = self.told().finalized_features_epoch
        response = self.update(case)
        results = sorted([result.feature, error_name(result.error_code)] for result in response.results)
        changes = not response.error_code and not case.validate_only
        wanted = {**before, **({name: level for name, level, _ in case.updates} if changes else {})}
        levels = self.settled(wanted)
        assert wanted == before or self.told().finalized_features_epoch > epoch
        assert (response.error_message is None) == (response.error_code == 0)
        return [error_name(response.error_code), results, levels]
