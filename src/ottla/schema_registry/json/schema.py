"""A JSON Schema in the registry. Pure."""

from __future__ import annotations

import json
import urllib.parse
from collections.abc import Iterator, Mapping
from typing import Any

from ottla.schema_registry.formats import Parsed
from ottla.schema_registry.json.comparison import JsonComparison
from ottla.schema_registry.json.differences import find_breaking
from ottla.schema_registry.json.views import Views
from ottla.schema_registry.refusals import InvalidSchema
from ottla.schemas.libraries import first_line, library


class JsonSchema:
    """A parsed schema. `others` has the schemas to which it refers, by name."""

    def __init__(self, given: Any, others: Mapping[str, Any]) -> None:
        self.given = given
        self._others = others
        self._ids = {id(document): _ids(document) for document in (given, *others.values())}
        self._names = {id(document): name for name, document in others.items()}
        self.text = _dump(given)

    def normalize(self) -> str:
        return _dump(self.given, sort_keys=True)

    def format_as(self, name: str) -> str:
        return self.text

    def unreadable(self, written: Parsed, *, reader: str, writer: str) -> list[str]:
        if not isinstance(written, JsonSchema):
            raise TypeError("two JSON Schemas are compared")
        comparison = JsonComparison(Views(written.resolve), Views(self.resolve))
        old, new = comparison.old(written.given, written.given), comparison.new(self.given, self.given)
        return [
            f"{{errorType:'{each.kind}', description:'The {reader} schema cannot read data of the {writer} schema at path "
            f"'{each.path}'', additionalInfo:'{each.path}'}}"
            for each in find_breaking(comparison.compare(old, new, "#"))
        ]

    def resolve(self, base: Any, reference: str) -> tuple[Any, Any]:
        """Return the document and the subschema of a `$ref` in a document. Raises `InvalidSchema`."""
        uri, _, fragment = reference.partition("#")
        document = self._document(base, uri)
        if not fragment:
            return document, self._ids.get(id(document), {}).get(uri, document)
        if not fragment.startswith("/"):
            found = self._ids.get(id(document), {}).get("#" + fragment)
            if found is None:
                raise InvalidSchema(f"Unresolved $ref {reference}")
            return document, found
        return document, _at(document, fragment, reference)

    def _document(self, base: Any, uri: str) -> Any:
        if not uri or uri in self._ids.get(id(base), {}):
            return base
        own = base.get("$id", "") if isinstance(base, dict) else ""
        base_name = self._names.get(id(base), "")
        wanted = [uri, *(_join_uri(each, uri) for each in (own, base_name) if isinstance(each, str))]
        for name, document in (*self._others.items(), ("", self.given)):
            identity = document.get("$id") if isinstance(document, dict) else None
            if any(each in (name, identity) or (name and each.endswith("/" + name)) for each in wanted):
                return document
        if any("json-schema.org/" in each for each in wanted):
            return _accept_all()
        raise InvalidSchema(f"Unresolved $ref {uri}: add a reference of this name")


_ANYTHING: dict[str, Any] = {}


def _accept_all() -> Any:
    """Return a schema for references to metaschemas, whose content is not compared."""
    return _ANYTHING


def _join_uri(base: str, uri: str) -> str:
    try:
        return urllib.parse.urljoin(base, uri)
    except ValueError:
        return uri


def parse(text: str, references: Mapping[str, str], is_new: bool) -> JsonSchema:
    """Parse a schema. Raises `InvalidSchema`."""
    try:
        given = _json(text)
        schema = JsonSchema(given, {name: _json(each) for name, each in references.items()})
        if is_new:
            _check(given)
        views = Views(schema.resolve)
        for base, reference in _references(given):
            base, found = schema.resolve(base, reference)
            if is_new:
                views.of(found, base)  # refuses references in a circle, which could be compared with no later version
    except RecursionError:
        raise InvalidSchema("it is nested too deeply") from None
    return schema


def _json(text: str) -> Any:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise InvalidSchema(f"it is no JSON ({error})") from None
    if not isinstance(found, dict | bool):
        raise InvalidSchema("it is neither an object nor a boolean")
    return found


def _check(given: Any) -> None:
    """Check a schema by its metaschema. Raises `InvalidSchema`."""
    validators = library("jsonschema", "JSON Schema").validators
    kind = validators.validator_for(given, default=library("jsonschema", "JSON Schema").Draft7Validator)
    try:
        kind.check_schema(given)
    except library("jsonschema.exceptions", "JSON Schema").SchemaError as error:
        raise InvalidSchema(f"{first_line(error)} at {error.json_path}") from None


def _subschemas(given: Any) -> Iterator[dict[str, Any]]:
    """Iterate over all objects within a schema, without values of `enum`, `const`, `default` and `examples`."""
    waiting = [given]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            yield each
            waiting += [value for name, value in each.items() if name not in ("enum", "const", "default", "examples")]
        elif isinstance(each, list):
            waiting += each


def _references(given: Any) -> Iterator[tuple[Any, str]]:
    for each in _subschemas(given):
        if isinstance(each.get("$ref"), str):
            yield given, each["$ref"]


def _ids(given: Any) -> dict[str, Any]:
    """Return the subschemas that have names of their own: by `$id`, `#anchor` and `#id`."""
    found: dict[str, Any] = {}
    for each in _subschemas(given):
        for keyword in ("$id", "id"):
            if isinstance(each.get(keyword), str):
                found[each[keyword]] = each
        for keyword in ("$anchor", "$dynamicAnchor"):
            if isinstance(each.get(keyword), str):
                found["#" + each[keyword]] = each
    return found


def _at(document: Any, pointer: str, reference: str) -> Any:
    found = document
    for part in pointer.split("/")[1:]:
        name = urllib.parse.unquote(part).replace("~1", "/").replace("~0", "~")
        if isinstance(found, dict) and name in found:
            found = found[name]
        elif isinstance(found, list) and name.isdecimal() and int(name) < len(found):
            found = found[int(name)]
        elif document is _ANYTHING:
            return document
        else:
            raise InvalidSchema(f"Unresolved $ref {reference}")
    return found


def _dump(given: Any, *, sort_keys: bool = False) -> str:
    return json.dumps(given, ensure_ascii=False, separators=(",", ":"), sort_keys=sort_keys)
