"""The tables of other clients' names: theirs exist in the installed libraries, ours in Ottla, and none of theirs is missing."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.client import other_clients
from ottla.client.other_clients import AIOKAFKA, CLASSES, CONFLUENT, ERRORS, KAFKA_PYTHON, METHODS, SETTINGS
from ottla.client.settings.clients import AdminSettings, ConsumerSettings, ProducerSettings
from tools.moving_pages import PAGES, with_tables

confluent_kafka = pytest.importorskip("confluent_kafka")
pytest.importorskip("kafka")
pytest.importorskip("aiokafka")

OUR_SETTINGS = {each.name for kind in (ProducerSettings, ConsumerSettings, AdminSettings) for each in fields(kind)}


def load(name: str) -> Any:
    home, _, kind = name.rpartition(".")
    return getattr(import_module(home), kind)


def settings_of(library: str) -> Iterator[str]:
    """Yield the names of all settings of a library that can list them."""
    for name in METHODS:
        if library == KAFKA_PYTHON and name.startswith("kafka."):
            yield from load(name).DEFAULT_CONFIG
        if library == AIOKAFKA and name.startswith("aiokafka."):
            yield from (each for each in inspect.signature(load(name)).parameters if each != "self")


def is_setting_of_librdkafka(name: str) -> bool:
    """Return whether librdkafka has a setting. It refuses an unknown name before it looks at the value."""
    refusals = []
    for kind in (confluent_kafka.Producer, confluent_kafka.Consumer):
        try:
            kind({"bootstrap.servers": "127.0.0.1:1", "group.id": "board", name: "?"})
        except Exception as refused:  # a refused value raises another class for each type of settings
            refusals.append("No such configuration property" in str(refused))
    return refusals != [True, True]


@pytest.mark.parametrize("library", [KAFKA_PYTHON, AIOKAFKA])
def test_each_setting_is_called_the_same_or_is_in_the_table(library: str) -> None:
    theirs = set(settings_of(library))
    assert set(SETTINGS[library]) <= theirs - OUR_SETTINGS
    assert theirs - set(SETTINGS[library]) <= OUR_SETTINGS


@pytest.mark.parametrize("name", SETTINGS[CONFLUENT])
def test_librdkafka_has_the_setting(name: str) -> None:
    assert is_setting_of_librdkafka(name)
    assert not is_setting_of_librdkafka(f"{name}.x")


@pytest.mark.parametrize("library", SETTINGS)
def test_the_setting_that_takes_the_place_exists(library: str) -> None:
    assert {here.name for here in SETTINGS[library].values() if here.name} <= OUR_SETTINGS
    assert not [theirs for theirs, here in SETTINGS[library].items() if theirs.replace(".", "_") == here.name]


@pytest.mark.parametrize("name", METHODS)
def test_each_method_of_the_class_is_in_the_table(name: str) -> None:
    theirs, ours = load(name), getattr(ottla, CLASSES[name])
    assert set(METHODS[name]) == {each for each in dir(theirs) if not each.startswith("_") and callable(getattr(theirs, each))}
    assert not [here.name for here in METHODS[name].values() if here.name and not callable(getattr(ours, here.name, None))]


HOMES = {CONFLUENT: "confluent_kafka", KAFKA_PYTHON: "kafka.errors", AIOKAFKA: "aiokafka.errors"}


@pytest.mark.parametrize(("library", "home"), HOMES.items())
def test_the_errors_of_the_table_exist(library: str, home: str) -> None:
    for theirs, here in ERRORS[library].items():
        found: Any = import_module(home)
        for part in theirs.split("."):
            found = getattr(found, part)
        assert not here.name or issubclass(getattr(ottla, here.name), Exception)


def test_a_name_without_an_equivalent_has_a_note() -> None:
    tables = (SETTINGS, METHODS, ERRORS)
    assert not [
        name for table in tables for names in table.values() for name, here in names.items() if not (here.name or here.note)
    ]
    assert other_clients.find_setting("no_such_setting") is None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_tables_of_the_page_are_those_of_the_code(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert text == with_tables(text), "call make docs"
    assert text.count("<!-- names: ") == 5
