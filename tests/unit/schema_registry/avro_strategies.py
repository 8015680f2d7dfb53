"""Hypothesis strategies for Avro: schemas that resemble each other, and values of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from hypothesis import strategies as st

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
NAMES = ("a", "b", "c")


def defaults(schema: Any) -> st.SearchStrategy[Any]:
    """Return JSON values that are defaults of a schema."""
    if isinstance(schema, list):
        return defaults(schema[0])
    if isinstance(schema, dict):
        if schema["type"] == "array":
            return st.just([])
        if schema["type"] == "map":
            return st.just({})
        if schema["type"] == "enum":
            return st.sampled_from(schema["symbols"])
        if schema["type"] == "fixed":
            return st.just("x" * schema["size"])
        return st.just({each["name"]: each["default"] for each in schema["fields"] if "default" in each}).filter(
            lambda found: len(found) == len(schema["fields"])
        )
    plain = {"null": None, "boolean": True, "int": 1, "long": 2, "float": 1.5, "double": 2.5, "bytes": "x", "string": "y"}
    return st.just(plain[schema])


@st.composite
def schemas(draw: st.DrawFn, depth: int = 2, counter: list[int] | None = None) -> Any:
    """Return a schema without recursion. Names are unique by their number, and alike in two schemas."""
    counter = [0] if counter is None else counter
    kinds = ["primitive", "primitive", "enum", "fixed"] + (["record", "record", "array", "map", "union"] if depth else [])
    kind = draw(st.sampled_from(kinds))
    if kind == "primitive":
        return draw(st.sampled_from(PRIMITIVES))
    if kind in ("array", "map"):
        return {"type": kind, "items" if kind == "array" else "values": draw(schemas(depth=depth - 1, counter=counter))}
    if kind == "union":
        return draw(unions(depth, counter))
    counter[0] += 1
    name = f"N{counter[0]}"
    if kind == "enum":
        symbols = draw(st.lists(st.sampled_from(NAMES), min_size=1, unique=True))
        default = {"default": draw(st.sampled_from(symbols))} if draw(st.booleans()) else {}
        return {"type": "enum", "name": name, "symbols": symbols, **default}
    if kind == "fixed":
        return {"type": "fixed", "name": name, "size": draw(st.integers(1, 2))}
    return {"type": "record", "name": name, "fields": draw(fields(depth, counter))}


@st.composite
def unions(draw: st.DrawFn, depth: int, counter: list[int]) -> Any:
    """Return a union whose branches are of different types."""
    found: dict[str, Any] = {}
    for _ in range(draw(st.integers(1, 3))):
        branch = draw(schemas(depth=depth - 1, counter=counter).filter(lambda each: not isinstance(each, list)))
        found.setdefault(str(branch.get("name", branch["type"])) if isinstance(branch, dict) else branch, branch)
    return list(found.values())


@st.composite
def fields(draw: st.DrawFn, depth: int, counter: list[int]) -> list[Any]:
    """Return the fields of a record."""
    found = []
    for name in draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=3)):
        kind = draw(schemas(depth=depth - 1, counter=counter))
        made = {"name": name, "type": kind}
        if draw(st.booleans()):
            made["default"] = draw(st.one_of(defaults(kind), st.just(...)))
            if made["default"] is ...:
                del made["default"]
        if draw(st.integers(0, 3)) == 0:
            made["aliases"] = [draw(st.sampled_from(NAMES))]
        found.append(made)
    return found


def values(schema: Any) -> st.SearchStrategy[Any]:
    """Return values of a schema, as fastavro takes them."""
    if isinstance(schema, list):
        return st.one_of([values(each).map(partial(_branch, each)) for each in schema])
    if isinstance(schema, dict):
        made: dict[str, Callable[[], st.SearchStrategy[Any]]] = {
            "array": lambda: st.lists(values(schema["items"]), max_size=2),
            "map": lambda: st.dictionaries(st.sampled_from(NAMES), values(schema["values"]), max_size=2),
            "enum": lambda: st.sampled_from(schema["symbols"]),
            "fixed": lambda: st.binary(min_size=schema["size"], max_size=schema["size"]),
            "record": lambda: st.fixed_dictionaries({each["name"]: values(each["type"]) for each in schema["fields"]}),
        }
        return made[schema["type"]]()
    number = st.integers(-(2**31), 2**31 - 1)
    plain = {
        "null": st.none(),
        "boolean": st.booleans(),
        "int": number,
        "long": number.map(lambda each: each * 5),
        "float": st.floats(width=32),
        "double": st.floats(),
        "bytes": st.text(max_size=3).map(str.encode),
        "string": st.text(max_size=3),
    }
    return plain[schema]


def _branch(schema: Any, value: Any) -> Any:
    """Return a value of a union in the form that names its branch."""
    name = schema.get("name", schema["type"]) if isinstance(schema, dict) else schema
    return (name, value) if isinstance(schema, dict) and "name" in schema else value
