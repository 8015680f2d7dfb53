"""Administrators who change the same resource at the same time: at one broker, at two of a cluster, and with a restart between."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.serving.purgatory import DelayedReply
from ottla.broker.serving.request import Peer
from ottla.broker.settings import SecurityProtocol
from ottla.cluster import layout
from ottla.sim.ensemble import SimEnsemble
from ottla.sim.world import World
from ottla.wire.errors import DELEGATION_TOKEN_NOT_FOUND, NONE
from ottla.wire.framing import FrameHeader, decode_response, encode_request
from tests.support.acl_cases import ADMIN
from tests.support.acl_peers import MachineOfUsers
from tests.support.cluster_members import PreparedBroker
from tests.support.machine import Machine
from tests.support.messages import request
from tests.support.producing import create

DESCRIBE, ALTER, TOPIC, BROKER, LOGGERS, METRICS, GROUP = 32, 44, 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
THROTTLED = "leader.replication.throttled.replicas"
Config = tuple[str, int, str | None]
AT_ONCE: list[tuple[int, str, list[Config], dict[str, str]]] = [
    (TOPIC, "t", [(THROTTLED, APPEND, f"{n}:1") for n in range(5)], {THROTTLED: "0:1,1:1,2:1,3:1,4:1"}),
    (TOPIC, "t", [("flush.ms", SET, "7"), ("segment.ms", SET, "8")], {"flush.ms": "7", "segment.ms": "8"}),
    (TOPIC, "t", [("flush.ms", SET, "7"), ("flush.ms", DELETE, None), ("flush.ms", SET, "9")], {"flush.ms": "9"}),
    (METRICS, "s", [("metrics", SET, "a"), ("interval.ms", SET, "100")], {"metrics": "a", "interval.ms": "100"}),
    (METRICS, "s", [("metrics", SET, "a"), ("metrics", DELETE, None), ("match", SET, "")], {"metrics": "", "match": ""}),
    (BROKER, "", [("log.roll.ms", SET, "7"), ("log.retention.ms", SET, "9")], {"log.roll.ms": "7", "log.retention.ms": "9"}),
    (
        GROUP,
        "g",
        [("consumer.session.timeout.ms", SET, "50000"), ("consumer.heartbeat.interval.ms", SET, "6000")],
        {"consumer.session.timeout.ms": "50000", "consumer.heartbeat.interval.ms": "6000"},
    ),
    (LOGGERS, "1", [("ottla.log", SET, "ERROR"), ("ottla", SET, "DEBUG")], {"ottla.log": "ERROR", "ottla": "DEBUG"}),
]  # fmt: skip


def alteration(kind: int, name: str, *configs: Config) -> Any:
    changes = [{"name": key, "config_operation": operation, "value": value} for key, operation, value in configs]
    return request(ALTER, 1, resources=[{"resource_type": kind, "resource_name": name, "configs": changes}])


def description(kind: int, name: str, keys: dict[str, str]) -> Any:
    return request(DESCRIBE, 4, resources=[{"resource_type": kind, "resource_name": name, "configuration_keys": list(keys)}])


def values(answer: Any) -> dict[str, str]:
    return {one.name: one.value for one in answer.results[0].configs}


def receive(machine: Machine, key: int, version: int, body: Any) -> Any:
    """Give the broker a request and nothing more: its bundle is not over."""
    return machine.broker.receive(machine.frame_of(key, version, body), machine.peer, machine.clock.now())


def answered(machine: Machine, key: int, version: int, answer: Any) -> Any:
    return machine.finish(key, version, answer) if isinstance(answer, DelayedReply) else machine._decoded(key, version, answer)


@pytest.mark.parametrize(("kind", "name", "changes", "after"), AT_ONCE)
def test_no_change_of_a_bundle_is_lost_and_all_outlive_a_restart(
    kind: int, name: str, changes: list[Config], after: dict[str, str]
) -> None:
    machine = Machine()
    create(machine, "t", 5)
    answers = [receive(machine, ALTER, 1, alteration(kind, name, change)) for change in changes]
    for _ in range(50):
        machine.pass_time(10)
    assert [answered(machine, ALTER, 1, answer).responses[0].error_code for answer in answers] == [NONE] * len(changes)
    assert values(machine.ask(DESCRIBE, 4, description(kind, name, after))) == after
    machine.restart()
    if kind != LOGGERS:  # levels end with the process, and this one is simulated
        assert values(machine.ask(DESCRIBE, 4, description(kind, name, after))) == after


def test_a_token_that_two_expire_and_one_renews_in_a_bundle_is_expired_once() -> None:
    users = MachineOfUsers(security_protocol=SecurityProtocol.SSL, delegation_token_secret_key="k")
    machine = users.machine
    made = users.ask(ADMIN, 38, 3, request(38, 3, renewers=[], max_lifetime_ms=-1))
    bodies = [request(40, 2, hmac=made.hmac, expiry_time_period_ms=-1)] * 2 + [request(39, 2, hmac=made.hmac, renew_period_ms=-1)]
    answers = [(body.WIRE.key, receive(machine, body.WIRE.key, 2, body)) for body in bodies]
    for _ in range(50):
        machine.pass_time(10)
    codes = [answered(machine, key, 2, answer).error_code for key, answer in answers]
    assert codes == [NONE, DELEGATION_TOKEN_NOT_FOUND, DELEGATION_TOKEN_NOT_FOUND]
    assert users.ask(ADMIN, 41, 3, request(41, 3, owners=None)).tokens == []


def begin(broker: PreparedBroker, body: Any) -> Any:
    frame = memoryview(bytearray(b"".join(encode_request(FrameHeader(ALTER, 1, 1, "test"), body))))[4:]
    answer = broker.broker.receive(frame, Peer(1, "127.0.0.1", 50000, "127.0.0.1", 9092), broker.world.clock.now())
    broker.broker.finish_bundle(broker.world.clock.now())
    assert isinstance(answer, DelayedReply)
    return answer


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("kind", "name", "path"),
    [
        (METRICS, "s", layout.client_metrics_config_path("s")),
        (BROKER, "", layout.broker_config_path(None)),
        (GROUP, "g", layout.group_config_path("g")),
    ],
)
def test_brokers_of_a_cluster_lose_no_change_of_each_other(kind: int, name: str, path: str, seed: int) -> None:
    ensemble = SimEnsemble(World(seed))
    brokers = [PreparedBroker(ensemble, node_id) for node_id in (1, 2, 3)]
    _, _, changes, after = next(row for row in AT_ONCE if row[0] == kind)
    waiting = [begin(broker, alteration(kind, name, change)) for broker, change in zip(brokers, changes, strict=False)]
    assert ensemble.world.run(20_000, lambda: all(one.done for one in waiting))
    for one in waiting:
        decoded: Any = decode_response(ALTER, 1, b"".join(bytes(part) for part in one.answer)[4:])[1]
        (response,) = decoded.responses
        assert response.error_code == NONE, response.error_message
    entry = ensemble.get(path)
    assert entry is not None
    assert layout.configs_in(entry.value) == after
    ensemble.world.run(10_000)
    for broker in brokers:
        assert values(broker.ask(DESCRIBE, 4, description(kind, name, after))) == after
