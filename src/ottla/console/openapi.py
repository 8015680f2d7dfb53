"""The description of the console's JSON in OpenAPI 3.1, made from the table of pages, the signatures of views and dataclasses."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from typing import Any

from ottla.console.declarations import Action, Page, View
from ottla.console.values import ViewParameter, parameters_of
from ottla.version import VERSION

API = "/api"
"""Before the path of a page, the path of its JSON."""
PLAIN = {int: "integer", float: "number", bool: "boolean", str: "string"}
REFUSAL = {
    "description": "One sentence about what is wrong",
    "content": {
        "application/json": {
            "schema": {"type": "object", "properties": {"error": {"type": "string"}}, "required": ["error"]},
        }
    },
}


def describe(pages: Iterable[Page], actions: Iterable[Action]) -> dict[str, Any]:
    """Return the description of all pages and actions."""
    schemas = OpenApiSchemas()
    paths: dict[str, dict[str, Any]] = {}
    for page in pages:
        paths.setdefault(json_path(page.path), {})["get"] = _get(page, schemas)
    for action in actions:
        paths.setdefault(json_path(action.path), {})["post"] = _post(action, schemas)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Ottla's console", "version": VERSION, "description": "Every page of the console as JSON."},
        "paths": paths,
        "components": {"schemas": schemas.found},
    }


def json_path(path: str) -> str:
    """Return the path of a page's JSON. The first page's is /api/overview."""
    return API + (path if path != "/" else "/overview")


def _get(page: Page, schemas: OpenApiSchemas) -> dict[str, Any]:
    parameters = [
        {
            "name": each.name,
            "in": "path" if f"{{{each.name}}}" in page.path else "query",
            "required": each.is_required,
            "schema": _parameter_schema(each),
        }
        for each in parameters_of(page.view)
    ]
    return {
        "operationId": page.view.__name__,
        "summary": _summary(page.view),
        "parameters": parameters,
        "responses": {"200": _answer(page.view, schemas), "default": REFUSAL},
    }


def _post(action: Action, schemas: OpenApiSchemas) -> dict[str, Any]:
    in_path = [each for each in parameters_of(action.act) if f"{{{each.name}}}" in action.path]
    in_body = [each for each in parameters_of(action.act) if each not in in_path]
    body = {
        "type": "object",
        "properties": {each.name: _parameter_schema(each) for each in in_body},
        "required": [each.name for each in in_body if each.is_required],
        "additionalProperties": False,
    }
    return {
        "operationId": action.act.__name__,
        "summary": _summary(action.act),
        "parameters": [{"name": each.name, "in": "path", "required": True, "schema": _parameter_schema(each)} for each in in_path],
        "requestBody": {"required": True, "content": {"application/json": {"schema": body}}},
        "responses": {"200": _answer(action.act, schemas), "default": REFUSAL},
    }


def _summary(view: View) -> str:
    return (view.__doc__ or "").strip().partition("\n")[0].rstrip(".")


def _answer(view: View, schemas: OpenApiSchemas) -> dict[str, Any]:
    returned = typing.get_type_hints(view)["return"]
    return {"description": "The content", "content": {"application/json": {"schema": schemas.of(returned)}}}


def _parameter_schema(parameter: ViewParameter) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": PLAIN[parameter.kind]}
    if parameter.is_list:
        schema = {"type": "array", "items": schema}
    if not parameter.is_required and parameter.default is not None:
        schema["default"] = list(parameter.default) if parameter.is_list else parameter.default
    return schema


class OpenApiSchemas:
    """The schemas of dataclasses, by name. Each class that occurs in another one is described once."""

    def __init__(self) -> None:
        self.found: dict[str, Any] = {}

    def of(self, hint: Any, bound: dict[Any, Any] | None = None) -> dict[str, Any]:
        """Return the schema of a type. `bound` has the types for the type variables of a generic dataclass."""
        hint = (bound or {}).get(hint, hint)
        if hint is Any or hint is object:
            return {}
        if hint in PLAIN:
            return {"type": PLAIN[hint]}
        origin, inner = typing.get_origin(hint), typing.get_args(hint)
        if isinstance(hint, types.UnionType) or origin is typing.Union:
            return self._union(inner, bound)
        if origin in (list, tuple):
            return {"type": "array", "items": self.of(inner[0], bound)}
        if origin is dict:
            return {"type": "object", "additionalProperties": self.of(inner[1], bound)}
        if origin is not None and is_dataclass(origin):
            generic: Any = origin
            return self._object(generic, dict(zip(generic.__parameters__, inner, strict=True)))
        return self._reference(hint)

    def _union(self, inner: tuple[Any, ...], bound: dict[Any, Any] | None) -> dict[str, Any]:
        some = [self.of(each, bound) for each in inner if each is not type(None)]
        if type(None) in inner:
            some.append({"type": "null"})
        return some[0] if len(some) == 1 else {"anyOf": some}

    def _reference(self, kind: type) -> dict[str, Any]:
        if kind.__name__ not in self.found:
            self.found[kind.__name__] = {}  # so that a class that contains itself is described once
            self.found[kind.__name__] = self._object(kind, None)
        return {"$ref": f"#/components/schemas/{kind.__name__}"}

    def _object(self, kind: Any, bound: dict[Any, Any] | None) -> dict[str, Any]:
        hints = typing.get_type_hints(kind)
        properties = {each.name: self.of(hints[each.name], bound) for each in fields(kind)}
        return {"type": "object", "properties": properties, "required": list(properties)}
