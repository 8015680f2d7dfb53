"""The HTTP API of the registry: which function answers which path. Reads are functions of the machine, writes are changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ottla.schema_registry import queries, refusals
from ottla.schema_registry.levels import level_named
from ottla.schema_registry.machine import (
    Change,
    DeleteConfig,
    DeleteContext,
    DeleteMode,
    DeleteSubject,
    DeleteVersion,
    Register,
    RegistryMachine,
    SetConfig,
    SetMode,
    shown_config,
)
from ottla.schema_registry.refusals import RegistryRefusal
from ottla.schema_registry.server.http_request import RegistryRequest, schema_of, whole
from ottla.schema_registry.subjects import ALL_CONTEXTS, normalize, prefix_of, qualify, split
from ottla.schema_registry.values import IMPORT, MODES

CONFIG_FIELDS = (
    "alias", "aliasForDeks", "normalize", "validateFields", "validateNewSchemas", "validateRules", "compatibilityPolicy",
    "compatibilityGroup", "defaultMetadata", "overrideMetadata", "defaultRuleSet", "overrideRuleSet",
)  # fmt: skip
_FLAGS = ("normalize", "validateFields", "validateNewSchemas", "validateRules")
_OBJECTS = ("defaultMetadata", "overrideMetadata", "defaultRuleSet", "overrideRuleSet")

Read = Callable[[RegistryMachine, RegistryRequest], Any]
Write = Callable[[RegistryMachine, RegistryRequest], Change]


class Text(str):
    """An answer that is sent as it is: the text of a schema."""

    __slots__ = ()


class RegistryRoute(NamedTuple):
    """A path, such as `subjects/{subject}`, with the function that reads, or makes a change."""

    method: str
    path: tuple[str, ...]
    read: Read | None = None
    write: Write | None = None


def _subject(machine: RegistryMachine, request: RegistryRequest) -> str:
    """Return the subject of a path. A subject whose settings have an alias stands for another one."""
    subject = normalize(request.names["subject"])
    alias = machine.state.configs.get(subject, {}).get("alias")
    return normalize(alias) if isinstance(alias, str) and alias else subject


def _version(machine: RegistryMachine, request: RegistryRequest) -> dict[str, Any]:
    stored = queries.find_version(machine, _subject(machine, request), request.names["version"], deleted=request.flag("deleted"))
    qualified = request.text("referenceFormat") == "qualified"
    return queries.show_version(machine, stored, request.text("format"), qualified=qualified)


def _versions(machine: RegistryMachine, request: RegistryRequest) -> list[int]:
    subject, only = _subject(machine, request), request.flag("deletedOnly")
    found = queries.versions(machine.state, subject, deleted=request.flag("deleted"), deleted_only=only)
    return request.page(found)


def _referenced_by(machine: RegistryMachine, request: RegistryRequest) -> list[int]:
    subject = _subject(machine, request)
    return request.page(queries.referenced_by(machine, subject, request.names["version"], deleted=request.flag("deleted")))


def _subjects(machine: RegistryMachine, request: RegistryRequest) -> list[str]:
    prefix = request.text("subjectPrefix", ALL_CONTEXTS)
    found = queries.subjects(machine.state, prefix, deleted=request.flag("deleted"), deleted_only=request.flag("deletedOnly"))
    return request.page(found)


def _find_schema(machine: RegistryMachine, request: RegistryRequest) -> dict[str, Any]:
    normalized, deleted = request.flag("normalize"), request.flag("deleted")
    schema = schema_of(request.json())
    stored = queries.find_schema(machine, _subject(machine, request), schema, normalized=normalized, deleted=deleted)
    return queries.show_version(machine, stored, request.text("format"))


def _latest_with_metadata(machine: RegistryMachine, request: RegistryRequest) -> dict[str, Any]:
    wanted = dict(zip(request.query.get("key", ()), request.query.get("value", ()), strict=False))
    found = queries.latest_with_metadata(machine, _subject(machine, request), wanted, deleted=request.flag("deleted"))
    return queries.show_version(machine, found, request.text("format"))


def _register(machine: RegistryMachine, request: RegistryRequest) -> Change:
    body = request.json()
    schema_id, version = whole(body, "id", -1), whole(body, "version", 0)
    return Register(_subject(machine, request), schema_of(body), schema_id, version, request.flag("normalize"))


def _delete_version(machine: RegistryMachine, request: RegistryRequest) -> Change:
    number = queries.parse_version(request.names["version"])
    return DeleteVersion(_subject(machine, request), number, request.flag("permanent"))


def _delete_subject(machine: RegistryMachine, request: RegistryRequest) -> Change:
    return DeleteSubject(_subject(machine, request), request.flag("permanent"))


def _id(request: RegistryRequest) -> int:
    text = request.names["id"]
    if not (text.isascii() and text.isdecimal() and len(text) < 20):
        raise RegistryRefusal(404, "HTTP 404 Not Found")
    return int(text)


def _schema_of_id(machine: RegistryMachine, request: RegistryRequest) -> dict[str, Any]:
    qualified = request.text("referenceFormat") == "qualified"
    subject, format_name = normalize(request.text("subject")), request.text("format")
    return queries.show_id(machine, _id(request), subject, format_name, max_id=request.flag("fetchMaxId"), qualified=qualified)


def _subjects_of_id(machine: RegistryMachine, request: RegistryRequest) -> list[str]:
    found = queries.uses_of_id(machine.state, _id(request), normalize(request.text("subject")), deleted=request.flag("deleted"))
    return request.page(sorted({each.subject for each in found}))


def _versions_of_id(machine: RegistryMachine, request: RegistryRequest) -> list[dict[str, Any]]:
    found = queries.uses_of_id(machine.state, _id(request), normalize(request.text("subject")), deleted=request.flag("deleted"))
    return request.page([{"subject": each.subject, "version": each.version} for each in found])


def _schema_of_guid(machine: RegistryMachine, request: RegistryRequest) -> dict[str, Any]:
    context, schema_id = queries.with_guid(machine.state, request.names["guid"])[0]
    return queries.show_id(machine, schema_id, prefix_of(context), request.text("format"), max_id=False)


def _ids_of_guid(machine: RegistryMachine, request: RegistryRequest) -> list[dict[str, Any]]:
    return [{"context": context, "id": number} for context, number in queries.with_guid(machine.state, request.names["guid"])]


def _schemas(machine: RegistryMachine, request: RegistryRequest) -> list[Any]:
    prefix = request.text("subjectPrefix") or ALL_CONTEXTS
    found = queries.schemas(machine, prefix, deleted=request.flag("deleted"), latest_only=request.flag("latestOnly"))
    return request.page(found)


def _check(machine: RegistryMachine, request: RegistryRequest) -> dict[str, Any]:
    subject, version, schema = _subject(machine, request), request.names.get("version"), schema_of(request.json())
    normalized, verbose = request.flag("normalize"), request.flag("verbose")
    return queries.check_compatibility(machine, subject, version, schema, normalized=normalized, verbose=verbose)


def _config(machine: RegistryMachine, request: RegistryRequest) -> dict[str, Any]:
    return queries.config(machine.state, request.names.get("subject", ""), default_to_global=request.flag("defaultToGlobal"))


def _set_config(machine: RegistryMachine, request: RegistryRequest) -> Change:
    body = request.json()
    changes = {name: body[name] for name in CONFIG_FIELDS if name in body}
    for kind, names in (bool, _FLAGS), (dict, _OBJECTS), (str, ("alias", "compatibilityGroup", "compatibilityPolicy")):
        for name in names:
            if not isinstance(changes.get(name), kind | None):
                raise RegistryRefusal(422, f"{name} has another type.")
    for name in "compatibility", "compatibilityLevel":
        if name in body:
            changes["compatibilityLevel"] = None if body[name] is None else level_named(body[name])
            if body[name] is not None and changes["compatibilityLevel"] is None:
                raise refusals.invalid_level()
    if not changes:
        raise refusals.invalid_level()
    return SetConfig(request.names.get("subject", ""), changes)


def _delete_config(machine: RegistryMachine, request: RegistryRequest) -> Change:
    return DeleteConfig(request.names.get("subject", ""))


def _mode(machine: RegistryMachine, request: RegistryRequest) -> dict[str, Any]:
    return queries.mode(machine.state, request.names.get("subject", ""), default_to_global=request.flag("defaultToGlobal"))


def _set_mode(machine: RegistryMachine, request: RegistryRequest) -> Change:
    mode = str(request.json().get("mode")).upper()
    if mode not in MODES:
        raise refusals.invalid_mode()
    return SetMode(request.names.get("subject", ""), mode, mode == IMPORT and request.flag("force"))


def _delete_mode(machine: RegistryMachine, request: RegistryRequest) -> Change:
    return DeleteMode(request.names.get("subject", ""), request.flag("recursive"))


def _contexts(machine: RegistryMachine, request: RegistryRequest) -> list[str]:
    prefix = request.text("contextPrefix")
    return request.page([each for each in machine.state.context_names() if each.startswith(prefix)])


def _delete_context(machine: RegistryMachine, request: RegistryRequest) -> Change:
    return DeleteContext(normalize(request.names["context"]))


def _get(path: str, read: Read) -> RegistryRoute:
    return RegistryRoute("GET", tuple(path.split("/")), read)


def _only_text(read: Callable[[RegistryMachine, RegistryRequest], dict[str, Any]]) -> Read:
    return lambda machine, request: Text(read(machine, request)["schema"])


ROUTES = (
    RegistryRoute("GET", ("",), lambda machine, request: {}),
    _get("subjects", _subjects),
    _get("subjects/{subject}/metadata", _latest_with_metadata),
    _get("subjects/{subject}/versions", _versions),
    _get("subjects/{subject}/versions/{version}", _version),
    _get("subjects/{subject}/versions/{version}/schema", _only_text(_version)),
    _get("subjects/{subject}/versions/{version}/referencedby", _referenced_by),
    RegistryRoute("POST", ("subjects", "{subject}"), read=_find_schema),
    RegistryRoute("POST", ("subjects", "{subject}", "versions"), write=_register),
    RegistryRoute("DELETE", ("subjects", "{subject}"), write=_delete_subject),
    RegistryRoute("DELETE", ("subjects", "{subject}", "versions", "{version}"), write=_delete_version),
    _get("schemas", _schemas),
    _get("schemas/types", lambda machine, request: queries.types()),
    _get("schemas/ids/{id}", _schema_of_id),
    _get("schemas/ids/{id}/schema", _only_text(_schema_of_id)),
    _get("schemas/ids/{id}/subjects", _subjects_of_id),
    _get("schemas/ids/{id}/versions", _versions_of_id),
    _get("schemas/guids/{guid}", _schema_of_guid),
    _get("schemas/guids/{guid}/ids", _ids_of_guid),
    RegistryRoute("POST", ("compatibility", "subjects", "{subject}", "versions"), read=_check),
    RegistryRoute("POST", ("compatibility", "subjects", "{subject}", "versions", "{version}"), read=_check),
    _get("config", _config),
    _get("config/{subject}", _config),
    RegistryRoute("PUT", ("config",), write=_set_config),
    RegistryRoute("PUT", ("config", "{subject}"), write=_set_config),
    RegistryRoute("DELETE", ("config",), write=_delete_config),
    RegistryRoute("DELETE", ("config", "{subject}"), write=_delete_config),
    _get("mode", _mode),
    _get("mode/{subject}", _mode),
    RegistryRoute("PUT", ("mode",), write=_set_mode),
    RegistryRoute("PUT", ("mode", "{subject}"), write=_set_mode),
    RegistryRoute("DELETE", ("mode",), write=_delete_mode),
    RegistryRoute("DELETE", ("mode", "{subject}"), write=_delete_mode),
    _get("contexts", _contexts),
    RegistryRoute("DELETE", ("contexts", "{context}"), write=_delete_context),
)
EMPTY_ANSWER = DeleteContext
"""The change whose answer has no body."""


def find_route(method: str, parts: list[str]) -> tuple[RegistryRoute, dict[str, str]]:
    """Return the route of a path, and the variable parts of the path. Raises `RegistryRefusal`."""
    named = [(route, names) for route in ROUTES if (names := _match(route.path, parts)) is not None]
    if not named:
        raise RegistryRefusal(404, "HTTP 404 Not Found")
    # A fixed part is preferred: schemas/types is none of an id.
    found = [each for each in named if each[0].method == ("GET" if method == "HEAD" else method)]
    if not found:
        raise RegistryRefusal(405, "HTTP 405 Method Not Allowed")
    return min(found, key=lambda each: len(each[1]))


def _match(path: tuple[str, ...], parts: list[str]) -> dict[str, str] | None:
    if len(path) != len(parts):
        return None
    names = {name[1:-1]: part for name, part in zip(path, parts, strict=True) if name.startswith("{")}
    right = all(name.startswith("{") or name == part for name, part in zip(path, parts, strict=True))
    return names if right and all(names.values()) else None


def within_context(parts: list[str], query: Mapping[str, list[str]]) -> tuple[list[str], Mapping[str, list[str]]]:
    """Return a path and a query without the leading `contexts/CONTEXT`, with that context in the names of subjects."""
    if len(parts) < 3 or parts[0] != "contexts":
        return parts, query
    context = "." + parts[1].strip(":").removeprefix(".")
    rest = parts[2:]
    places = {"subjects": 1, "config": 1, "mode": 1, "compatibility": 2}
    place = places.get(rest[0])
    if place is not None and len(rest) > place and not rest[place].startswith(":"):
        rest[place] = qualify(context, rest[place])
    elif rest in (["config"], ["mode"]):
        rest.append(prefix_of(context) or ":.:")
    names = {"subjects": "subjectPrefix", "schemas": "subject" if len(rest) > 1 else "subjectPrefix"}
    name = names.get(rest[0]) if rest[0] == "schemas" or len(rest) == 1 else None
    if name is not None:
        query = {**query, name: [qualify(context, split(query.get(name, [""])[-1])[1])]}
    return rest, query


def reply_to(change: Change, reply: Any) -> Any:
    """Return the answer to a change. That to settings repeats them."""
    if isinstance(change, SetConfig):
        found = shown_config(change.changes)
        level = found.pop("compatibilityLevel", None)
        return {**({"compatibility": level} if level else {}), **{name: each for name, each in found.items() if each is not None}}
    return reply
