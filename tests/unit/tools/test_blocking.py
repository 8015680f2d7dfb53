"""Blocking clients are what `tools.blocking` writes from the asynchronous ones."""

from __future__ import annotations

import inspect

import pytest

import ottla
from tools.blocking import KINDS, page, place


@pytest.mark.parametrize("kind", KINDS)
def test_blocking_clients_are_written_from_the_asynchronous_ones(kind: str) -> None:
    pytest.importorskip("ruff", reason="ruff is absent: pip install ruff")
    assert place(kind).read_text() == page(kind), "run make docs"


@pytest.mark.parametrize("kind", [ottla.Producer, ottla.Consumer, ottla.Admin])
def test_a_blocking_client_has_every_method_of_its_twin_with_the_same_parameters(kind: type) -> None:
    twin = getattr(ottla, f"Async{kind.__name__}")
    names = {name for name in dir(twin) if not name.startswith("_") and hasattr(twin, name)} - {"start"}
    parameters = {name: [list(inspect.signature(getattr(one, name)).parameters.values()) for one in (kind, twin)] for name in names}
    assert names
    assert {name: found for name, found in parameters.items() if found[0] != found[1]} == {}
