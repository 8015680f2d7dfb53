"""Levels of the broker's loggers over the wire: listed, changed at once and refused as Apache Kafka 4.3 does."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from ottla.net.process_loggers import ProcessLoggers
from ottla.ports import Loggers
from ottla.sim.loggers import SimLoggers
from ottla.wire.api.alter_configs import AlterConfigsRequest
from ottla.wire.api.list_config_resources import ListConfigResourcesRequest
from ottla.wire.errors import INVALID_CONFIG, INVALID_REQUEST, NONE
from tests.support.machine import Machine
from tests.unit.broker.test_config_requests import APPEND, DELETE, SET, SUBTRACT, alter, result

LOGGER = 8
OF_A_LOGGER = 6


def levels(machine: Machine, *names: str) -> dict[str, str | None]:
    return {entry.name: entry.value for entry in result(machine, LOGGER, "1", list(names)).configs}


def test_each_logger_has_its_effective_level_by_kafkas_name() -> None:
    machine = Machine()
    assert levels(machine) == dict.fromkeys(("root", "ottla", "ottla.broker", "ottla.broker.deep", "ottla.log"), "WARN")
    (entry,) = result(machine, LOGGER, "1", ["ottla.log"]).configs
    assert (entry.config_source, entry.config_type, entry.documentation) == (OF_A_LOGGER, 0, "")
    assert (entry.read_only, entry.is_sensitive, entry.synonyms) == (False, False, [])
    assert levels(machine, "ottla.nowhere") == {}


def test_a_level_is_in_force_at_once_for_all_below_and_its_deletion_restores_the_parents() -> None:
    machine = Machine()
    assert alter(machine, LOGGER, "1", ("ottla.broker", SET, "DEBUG"), ("ottla", SET, "ERROR")) == NONE
    assert levels(machine) == {
        "root": "WARN",
        "ottla": "ERROR",
        "ottla.broker": "DEBUG",
        "ottla.broker.deep": "DEBUG",
        "ottla.log": "ERROR",
    }
    assert alter(machine, LOGGER, "1", ("ottla.broker", DELETE, None)) == NONE
    assert alter(machine, LOGGER, "1", ("ottla.broker", DELETE, "INFO")) == NONE
    assert levels(machine, "ottla.broker.deep") == {"ottla.broker.deep": "ERROR"}


@pytest.mark.parametrize("level", ["TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"])
def test_each_level_of_kafka_is_shown_as_it_was_set(level: str) -> None:
    machine = Machine()
    assert alter(machine, LOGGER, "1", ("root", SET, level)) == NONE
    assert set(levels(machine).values()) == {level}


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (("ottla", SET, "LOUD"), INVALID_CONFIG),
        (("ottla", SET, "debug"), INVALID_CONFIG),
        (("ottla", SET, " INFO"), INVALID_CONFIG),
        (("ottla", SET, "OFF"), INVALID_CONFIG),
        (("ottla", SET, ""), INVALID_CONFIG),
        (("ottla", SET, None), INVALID_REQUEST),
        (("nobody", SET, "INFO"), INVALID_CONFIG),
        (("nobody", DELETE, None), INVALID_CONFIG),
        (("root", DELETE, None), INVALID_REQUEST),
        (("ottla", APPEND, "INFO"), INVALID_REQUEST),
        (("ottla", SUBTRACT, "INFO"), INVALID_REQUEST),
        (("ottla", 9, "INFO"), INVALID_REQUEST),
    ],
)
def test_a_refused_change_leaves_all_levels_of_its_request(change: tuple[str, int, str | None], code: int) -> None:
    machine = Machine()
    before = levels(machine)
    assert alter(machine, LOGGER, "1", ("ottla.log", SET, "DEBUG"), change) == code
    assert levels(machine) == before


@pytest.mark.parametrize("name", ["", "2", "x"])
def test_loggers_are_those_of_the_broker_that_is_asked(name: str) -> None:
    machine = Machine()
    assert result(machine, LOGGER, name).error_code == INVALID_REQUEST
    assert alter(machine, LOGGER, name, ("ottla", SET, "DEBUG")) == INVALID_REQUEST
    assert levels(machine, "ottla") == {"ottla": "WARN"}


def test_a_change_can_be_validated_alone() -> None:
    machine = Machine()
    assert alter(machine, LOGGER, "1", ("ottla", SET, "FATAL"), validate_only=True) == NONE
    assert alter(machine, LOGGER, "1", ("ottla", SET, "fatal"), validate_only=True) == INVALID_CONFIG
    assert levels(machine, "ottla") == {"ottla": "WARN"}


def test_levels_are_not_replaced_as_a_whole() -> None:
    machine = Machine()
    wanted = [AlterConfigsRequest.AlterableConfig(name="ottla", value="INFO")]
    resource = AlterConfigsRequest.AlterConfigsResource(resource_type=LOGGER, resource_name="1", configs=wanted)
    (altered,) = machine.ask(33, 2, AlterConfigsRequest(resources=[resource])).responses
    assert altered.error_code == INVALID_REQUEST
    assert levels(machine, "ottla") == {"ottla": "WARN"}


def test_the_broker_is_listed_as_a_resource_with_loggers() -> None:
    listed = Machine().ask(74, 1, ListConfigResourcesRequest(resource_types=[LOGGER])).config_resources
    assert [(one.resource_type, one.resource_name) for one in listed] == [(LOGGER, "1")]


@pytest.fixture(params=["process", "simulated"])
def loggers(request: pytest.FixtureRequest) -> Iterator[Loggers]:
    if request.param == "simulated":
        yield SimLoggers("ottla", "ottla.only.here", "ottla.only")
        return
    logging.getLogger("ottla.only.here")
    logging.getLogger("other.only.here")
    above = logging.getLogger("ottla.only")
    yield ProcessLoggers()
    above.setLevel(logging.NOTSET)


def test_loggers_inherit_levels_by_their_names(loggers: Loggers) -> None:
    before = loggers.levels()
    assert next(iter(before)) == "root"
    assert all(name == "root" or name.split(".")[0] == "ottla" for name in before)
    assert before["ottla.only.here"] == before["ottla.only"] == before["ottla"]
    loggers.set_level("ottla.only", 5)
    assert loggers.levels() == before | {"ottla.only": 5, "ottla.only.here": 5}
    loggers.set_level("ottla.only", None)
    assert loggers.levels() == before
