"""Schemas of a schema registry: subjects, their versions, and what has changed between two versions."""

from __future__ import annotations

import asyncio
import difflib
import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from ottla.client.errors import TimedOut
from ottla.console.cluster_session import ClusterSession
from ottla.console.declarations import DEADLINE_S, PageRefused
from ottla.console.rows import Pages, cut, filter_rows
from ottla.errors import KafkaError
from ottla.schemas.registry_client import RegistryClient

OPTION = "--schema-registry"
AVRO = "AVRO"
MOST_DIFF_LINES = 4_000
"""The lines of two versions together that are compared."""


@dataclass(frozen=True, slots=True)
class SubjectList:
    """A page of subjects. `level` is the compatibility that the registry wants unless a subject says otherwise."""

    subjects: list[str]
    place: Pages
    q: str
    level: str
    trouble: str


@dataclass(frozen=True, slots=True)
class SchemaReference:
    """A schema that another one uses."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class DiffLine:
    """A line of two versions: `kind` is added, removed, same, or place for a line that says where it stands."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    """A version of a subject's schema, with the lines that differ from `other`, the version that it is compared with."""

    subject: str
    level: str
    versions: list[int]
    version: int
    schema_id: int
    format: str
    text: str
    references: list[SchemaReference]
    other: int | None
    diff: list[DiffLine]


async def schemas(cluster: ClusterSession, q: str = "", page: int = 1) -> SubjectList:
    """Return a page of the registry's subjects, filtered by a part of their names."""
    registry, trouble, names, level = _registry(cluster), "", [], ""
    try:
        names = _texts(await _read(registry, "/subjects"))
        level = _level(await _read(registry, "/config"))
    except KafkaError as error:
        trouble = str(error)
    rows, place = cut(filter_rows(sorted(names), q, str), page, len(names))
    return SubjectList(rows, place, q, level, trouble)


async def schema(cluster: ClusterSession, subject: str, version: int | None = None, other: int | None = None) -> SchemaVersion:
    """Return a version of a subject's schema, by default the newest, and its differences from another one."""
    registry, path = _registry(cluster), f"/subjects/{quote(subject, safe='')}/versions"
    versions = _numbers(await _read(registry, path))
    if not versions:
        raise PageRefused(404, f"The registry has no subject {subject}.")
    chosen = version if version is not None else versions[-1]
    earlier = [each for each in versions if each < chosen]
    compared = other if other is not None else earlier[-1] if earlier else None
    found = await _version(registry, path, subject, chosen)
    diff = [] if compared is None else _differences(await _version(registry, path, subject, compared), found)
    own = _level(await _read(registry, f"/config/{quote(subject, safe='')}"))
    references = [
        SchemaReference(str(each.get("name")), str(each.get("subject")), _number(each.get("version")))
        for each in found.get("references") or ()
        if isinstance(each, dict)
    ]
    return SchemaVersion(
        subject,
        own or _level(await _read(registry, "/config")),
        versions,
        chosen,
        _number(found.get("id")),
        str(found.get("schemaType") or AVRO),
        _readable(found),
        references,
        compared,
        diff,
    )


def _registry(cluster: ClusterSession) -> RegistryClient:
    if not cluster.config.schema_registry:
        raise PageRefused(404, f"This console knows no schema registry: start it with {OPTION} URL.")
    return RegistryClient(cluster.config.schema_registry, OPTION, OPTION)


async def _read(registry: RegistryClient, path: str) -> Any:
    """Return the registry's answer for a path, or None. Raises `KafkaError`, also when the deadline of pages has passed."""
    try:
        async with asyncio.timeout(DEADLINE_S):
            return await asyncio.to_thread(registry.read, path)
    except TimeoutError:
        raise TimedOut(f"The schema registry at {registry.url} has not answered within {DEADLINE_S:g} s.") from None


async def _version(registry: RegistryClient, path: str, subject: str, version: int) -> dict[str, Any]:
    found = await _read(registry, f"{path}/{version}")
    if not isinstance(found, dict):
        raise PageRefused(404, f"Subject {subject} has no version {version}.")
    return found


def _texts(found: Any) -> list[str]:
    return [each for each in found if isinstance(each, str)] if isinstance(found, list) else []


def _numbers(found: Any) -> list[int]:
    return sorted(each for each in found if isinstance(each, int)) if isinstance(found, list) else []


def _number(found: Any) -> int:
    return found if isinstance(found, int) else -1


def _level(found: Any) -> str:
    return str(found.get("compatibilityLevel") or "") if isinstance(found, dict) else ""


def _readable(found: dict[str, Any]) -> str:
    """Return a schema's text; Avro and JSON with a line for each part."""
    text = str(found.get("schema") or "")
    if found.get("schemaType") == "PROTOBUF":
        return text
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return text


def _differences(before: dict[str, Any], after: dict[str, Any]) -> list[DiffLine]:
    old, new = _readable(before).splitlines(), _readable(after).splitlines()
    if len(old) + len(new) > MOST_DIFF_LINES:
        return [DiffLine("place", f"The versions have more than {MOST_DIFF_LINES} lines, too many to compare here.")]
    kinds = {"+": "added", "-": "removed", "@": "place"}
    lines = list(difflib.unified_diff(old, new, lineterm="", n=3))[2:]
    return [DiffLine(kinds.get(line[:1], "same"), line if line[:1] == "@" else line[1:]) for line in lines]
