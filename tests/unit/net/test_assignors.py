"""The setting `group.consumer.assignors`: built-in names, a user's own by module and class, and what is refused with a sentence."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from ottla.broker.settings import BrokerSettings, SettingError
from ottla.coord.consumer.assign import Partitions, Subscriber, TopicShape
from ottla.coord.consumer.assign.built_in import BUILT_IN
from ottla.net.startup.plugins import assignors


class Nothing:
    """Assigns nothing to anybody."""

    name = "nothing"

    def assign(self, subscribers: Mapping[str, Subscriber], topics: Mapping[bytes, TopicShape]) -> Mapping[str, Partitions]:
        return {}


class Nameless:
    """No assignor."""


HERE = "tests.unit.net.test_assignors"


def test_names_stand_for_built_in_assignors_in_their_order() -> None:
    assert assignors(["range", "uniform"]) == (BUILT_IN[1], BUILT_IN[0])


def test_an_own_assignor_is_named_by_module_and_class_or_given_as_it_is() -> None:
    assert [each.name for each in assignors([f"{HERE}:Nothing", "uniform"])] == ["nothing", "uniform"]
    assert [each.name for each in assignors([Nothing(), *BUILT_IN])] == ["nothing", "uniform", "range"]


@pytest.mark.parametrize(
    ("wanted", "sentence"),
    [
        ([], "is empty: name at least one"),
        (["uniform", "uniform"], "two assignors with the same name"),
        (["nowhere.at.all:X"], "which cannot be imported"),
        ([f"{HERE}:Missing"], "which cannot be imported"),
        ([f"{HERE}:Nameless"], "which is not an assignor"),
        ([object()], "object, which is not an assignor"),
    ],
    ids=["empty", "twice", "no-module", "no-class", "nameless", "object"],
)
def test_what_cannot_be_an_assignor_is_refused_with_a_sentence(wanted: list[str], sentence: str) -> None:
    with pytest.raises(SettingError, match=sentence):
        assignors(wanted)


@pytest.mark.parametrize("text", ["", "sticky", "a:", ":b", "uniform,org.example.Own"])
def test_texts_that_name_no_assignor_are_refused_before_the_start(text: str) -> None:
    with pytest.raises(SettingError, match="must list uniform, range, or your own as module:Class"):
        BrokerSettings({"group.consumer.assignors": text})


def test_the_migration_policy_is_read_in_capitals_too() -> None:
    settings = BrokerSettings({"group.consumer.migration.policy": "UPGRADE"})
    assert settings.group_consumer_migration_policy == "upgrade"
