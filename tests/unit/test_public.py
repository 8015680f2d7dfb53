"""The public classes: blocking and asynchronous twins offer the same, and nothing but their interface is public."""

from __future__ import annotations

import builtins
import inspect
import re

import pytest

import ottla
from tests.tree.source import ROOT

TWINS = [(ottla.Producer, ottla.AsyncProducer), (ottla.Consumer, ottla.AsyncConsumer), (ottla.Admin, ottla.AsyncAdmin)]


def interface(kind: type) -> dict[str, inspect.Signature]:
    """The parameters of all public methods; what they return differs among twins."""
    methods = {name: getattr(kind, name) for name in dir(kind) if not name.startswith("_") and hasattr(kind, name)}
    bare = inspect.Signature.empty
    return {name: inspect.signature(method).replace(return_annotation=bare) for name, method in methods.items()}


@pytest.mark.parametrize(("blocking", "asynchronous"), TWINS)
def test_twins_have_the_same_methods_with_the_same_arguments(blocking: type, asynchronous: type) -> None:
    extra = interface(asynchronous).keys() - interface(blocking).keys()
    assert extra == {"start"}, "a blocking client is started when it is made"
    both = {name: found for name, found in interface(blocking).items() if (blocking, name) != (ottla.Producer, "poll")}
    assert {name: found for name, found in interface(asynchronous).items() if name != "start"} == both, (
        "poll calls the callbacks of deliveries on the user's thread: on asyncio, the loop does"
    )
    assert inspect.signature(blocking) == inspect.signature(asynchronous)


@pytest.mark.parametrize("kind", [kind for twins in TWINS for kind in twins])
def test_every_public_method_is_described(kind: type) -> None:
    assert all(getattr(kind, name).__doc__ for name in interface(kind))
    assert kind.__doc__


@pytest.mark.parametrize("kind", [asynchronous for _, asynchronous in TWINS])
def test_a_client_has_no_public_attributes(kind: type) -> None:
    assert not [name for name in vars(kind(bootstrap_servers="localhost:1")) if not name.startswith("_")]


@pytest.mark.parametrize("name", sorted(name for name in interface(ottla.Admin) if name != "close"))
def test_every_method_of_an_admin_is_in_its_table(name: str) -> None:
    assert f"`{name}`" in (ROOT / "docs/clients.md").read_text()


OTHERS = {
    "Iterable",
    "Mapping",
    "Sequence",
    "Self",
    "Place",
    "Users",
    "ConfigValue",
    "TracebackType",
    "Unpack",
    "AdminKeywords",
    "CallOptions",
    "Replica",
    "Servers",
}
"""Names of the standard library, and types that only type checkers need."""


def test_what_an_admin_takes_and_returns_is_exported() -> None:
    annotated = (getattr(method, "__annotations__", {}).values() for method in vars(ottla.Admin).values())
    words = {word for some in annotated for text in some for word in re.findall(r"\b[A-Z][A-Za-z]+\b", str(text))}
    assert not {word for word in words if not hasattr(builtins, word)} - {*ottla.__all__} - OTHERS
