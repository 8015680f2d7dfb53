"""Our declarations are Kafka's, field by field, in every version ever valid."""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from ottla.wire.apis import API
from ottla.wire.schema import Message
from tests.unit.wire.layouts import declared, digest, load, specified, versions
from tests.unit.wire.values import EVERY

_SHARED = Path(__file__).resolve().parents[4] / "shared"
_DIGESTS = Path(__file__).with_name("digests.txt")


@cache
def schemas() -> dict[str, list[dict[str, Any]]]:
    """Name -> its schemas, the newest release first."""
    if not (_SHARED / "schemas").is_dir():
        pytest.skip("../shared/schemas is absent: the digests alone hold the declarations")
    found: dict[str, list[dict[str, Any]]] = {}
    for release in ("4.4", "3.9"):
        for path in sorted((_SHARED / "schemas" / release).rglob("*.json")):
            schema = load(path)
            found.setdefault(schema["name"], []).append(schema)
    return found


def schemas_of(name: str, version: int) -> tuple[dict[str, Any], bool]:
    """The newest schema in which a version is valid, and whether it is an older release's."""
    newest, *older = [schema for schema in schemas()[name] if schema["validVersions"] != "none"]
    for schema in (newest, *older):
        if version in versions(schema["validVersions"]):
            return schema, schema is not newest
    raise AssertionError(f"{name} never had version {version}")


@pytest.mark.parametrize("cls", EVERY, ids=lambda cls: cls.__name__)
def test_every_field_is_that_of_kafkas_schema(cls: type[Message]) -> None:
    for version in cls.WIRE.valid:
        schema, older = schemas_of(cls.__name__, version)
        ours, kafkas = declared(cls, version), specified(schema, version)
        if older:  # whether a field is ignorable holds for all its versions: the newer release says it
            ours, kafkas = ([line.removesuffix(" ignorable") for line in lines] for lines in (ours, kafkas))
        assert ours == kafkas, f"version {version}"


def test_no_schema_of_kafka_is_missing() -> None:
    renamed = {"ListClientMetricsResourcesRequest", "ListClientMetricsResourcesResponse"}  # now ListConfigResources, the same bytes
    assert set(schemas()) - renamed == {cls.__name__ for cls in EVERY}


def test_versions_are_those_ever_valid() -> None:
    table = _SHARED / "spec" / "api_versions.csv"
    if not table.is_file():
        pytest.skip("../shared/spec is absent: the digests alone hold the versions")
    with table.open() as lines:
        rows = {int(row["api_key"]): row for row in csv.DictReader(lines)}
    assert set(rows) == set(API)
    for key, row in rows.items():
        api = API[key]
        flexible = versions("none" if row["flexible_from"] == "none" else f"{row['flexible_from']}+")
        assert (api.name, api.versions, api.flexible) == (
            row["name"],
            range(int(row["min_ever"]), int(row["max_ever"]) + 1),
            flexible,
        )


@pytest.mark.parametrize("key", API)
def test_request_and_response_are_declared_for_the_same_api_and_versions(key: int) -> None:
    request, response = API[key].request.WIRE, API[key].response.WIRE
    assert (request.key, request.valid, request.flexible) == (response.key, response.valid, response.flexible)
    assert request.key == key


def test_declarations_have_not_changed_unseen() -> None:
    """Holds without ../shared. Whoever changes a declaration on purpose runs this file as a program: it writes the digests anew."""
    kept = dict(line.split() for line in _DIGESTS.read_text().splitlines())
    assert {cls.__name__: digest(cls) for cls in EVERY} == kept


if __name__ == "__main__":
    _DIGESTS.write_text("".join(f"{cls.__name__} {digest(cls)}\n" for cls in EVERY))
