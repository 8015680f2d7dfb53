"""Plain values of pages: dataclasses as JSON, and the parameters of views out of paths, queries, forms and JSON."""

from __future__ import annotations

import inspect
import math
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from typing import Any

from ottla.console.declarations import PageRefused, View

REQUIRED = inspect.Parameter.empty
NOUNS = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}
TRUE, FALSE = frozenset({"1", "true", "on", "yes"}), frozenset({"", "0", "false", "off", "no"})
LARGEST = 1 << 63
"""Kafka's numbers have at most 64 bits, with their sign."""


@dataclass(frozen=True, slots=True)
class ViewParameter:
    """A parameter of a view. `is_list` means several values of `kind`. `default` is `REQUIRED` without one."""

    name: str
    kind: type
    default: Any
    is_list: bool = False

    @property
    def is_required(self) -> bool:
        return self.default is REQUIRED


@cache
def parameters_of(view: View) -> tuple[ViewParameter, ...]:
    """Return the parameters of a view, without its first one, the session."""
    hints = typing.get_type_hints(view)
    return tuple(
        _parameter(each, hints[each.name]) for number, each in enumerate(inspect.signature(view).parameters.values()) if number
    )


def _parameter(declared: inspect.Parameter, hint: Any) -> ViewParameter:
    kind = without_none(hint)
    if typing.get_origin(kind) is list:
        return ViewParameter(declared.name, typing.get_args(kind)[0], declared.default, is_list=True)
    return ViewParameter(declared.name, kind, declared.default)


def without_none(hint: Any) -> Any:
    """Return the type of a hint such as `int | None`, without None."""
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        return next(each for each in typing.get_args(hint) if each is not type(None))
    return hint


def arguments(view: View, given: Mapping[str, Any], *, is_strict: bool = False) -> dict[str, Any]:
    """Return the arguments of a view from texts or JSON values. With `is_strict`, refuse unknown names. Raises `PageRefused`."""
    parameters = parameters_of(view)
    if is_strict and (unknown := sorted(given.keys() - {each.name for each in parameters})):
        known = ", ".join(each.name for each in parameters) or "none"
        raise PageRefused(400, f"{unknown[0]} is not a parameter here: there are {known}.")
    found = {}
    for each in parameters:
        values = given.get(each.name)
        if values is None or (values == "" and each.kind is not str):
            if each.is_required:
                raise PageRefused(400, f"{each.name} is missing: give {NOUNS[each.kind]}.")
            continue
        if each.is_list:
            found[each.name] = [_convert(each, value) for value in (values if isinstance(values, list) else [values])]
        else:
            found[each.name] = _convert(each, values[-1] if isinstance(values, list) and values else values)
    return found


def _convert(parameter: ViewParameter, value: Any) -> Any:
    if isinstance(value, parameter.kind) and not (isinstance(value, bool) and parameter.kind is not bool):
        return value
    if parameter.kind is bool and isinstance(value, str) and value.lower() in TRUE | FALSE:
        return value.lower() in TRUE
    if parameter.kind in (int, float) and isinstance(value, str | int | float) and not isinstance(value, bool):
        try:
            number = parameter.kind(value)
        except (ValueError, OverflowError):  # JSON's 1e400 is infinite
            number = LARGEST
        if abs(number) < LARGEST:  # neither too large nor NaN
            return number
    raise PageRefused(400, f"{parameter.name} is {NOUNS[parameter.kind]}, not {str(value)[:100]!r}.")


def as_json(value: Any) -> Any:
    """Return a page's value as JSON has it. Numbers that JSON does not have become null."""
    if is_dataclass(value):
        return {each.name: as_json(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): as_json(each) for key, each in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [as_json(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
