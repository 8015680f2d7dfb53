"""Quotas on a broker: kept, described, told to clients in every version, and in force from one request to the next."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.quotas.client_quotas import Client
from ottla.broker.quotas.exemptions import OF_BROKERS
from ottla.broker.quotas.quota_changes import ENTITIES_AT_ONCE, QuotaChanges
from ottla.broker.serving.request import Close
from ottla.cluster.quotas import CONSUMER_BYTE_RATE, PRODUCER_BYTE_RATE, REQUEST_PERCENTAGE
from ottla.wire.api.create_partitions import CreatePartitionsRequest
from ottla.wire.api.create_topics import CreateTopicsRequest
from ottla.wire.api.delete_topics import DeleteTopicsRequest
from ottla.wire.api.fetch import FetchRequest
from ottla.wire.apis import API
from ottla.wire.errors import INVALID_REQUEST, NONE, THROTTLING_QUOTA_EXCEEDED, TOPIC_ALREADY_EXISTS, UNSUPPORTED_VERSION
from tests.support.machine import Machine
from tests.support.messages import request
from tests.support.producing import begin, create, fetch, produce
from tests.unit.broker.test_every_version import SERVED, named, ordinary

DESCRIBE, ALTER, PRODUCE, FETCH, CREATE, DELETE, GROW = 48, 49, 0, 1, 19, 20, 37

Names = dict[str, str | None]
ANONYMOUS: Names = {"user": "ANONYMOUS"}


def alter(machine: Machine, entity: Names, validate_only: bool = False, **quotas: float | None) -> tuple[int, str | None]:
    """Set quotas of one entity, or with None remove them: the error code and the sentence."""
    named = [{"entity_type": kind, "entity_name": name} for kind, name in entity.items()]
    ops = [{"key": key, "value": value or 0.0, "remove": value is None} for key, value in quotas.items()]
    body = request(ALTER, 1, entries=[{"entity": named, "ops": ops}], validate_only=validate_only)
    (entry,) = machine.ask(ALTER, 1, body).entries
    assert {each.entity_type: each.entity_name for each in entry.entity} == entity
    return entry.error_code, entry.error_message


def described(machine: Machine, *components: tuple[str, int, str | None], strict: bool = False) -> Any:
    parts = [{"entity_type": kind, "match_type": match_type, "match": match} for kind, match_type, match in components]
    return machine.ask(DESCRIBE, 1, request(DESCRIBE, 1, components=parts, strict=strict))


def found(response: Any) -> list[tuple[Names, dict[str, float]]]:
    return [
        (
            {each.entity_type: each.entity_name for each in entry.entity},
            {value.key: value.value for value in entry.values},
        )
        for entry in response.entries
    ]


def test_quotas_are_described_as_they_were_set_and_outlive_a_restart() -> None:
    machine = Machine()
    assert alter(machine, {"user": "alice", "client-id": None}, producer_byte_rate=1000.0, request_percentage=12.5) == (NONE, None)
    assert alter(machine, {"ip": "10.0.0.1"}, connection_creation_rate=5) == (NONE, None)
    assert alter(machine, {"user": None}, consumer_byte_rate=7) == (NONE, None)
    everything = [
        ({"user": None}, {CONSUMER_BYTE_RATE: 7.0}),
        ({"ip": "10.0.0.1"}, {"connection_creation_rate": 5.0}),
        ({"user": "alice", "client-id": None}, {PRODUCER_BYTE_RATE: 1000.0, REQUEST_PERCENTAGE: 12.5}),
    ]
    for _ in range(2):
        assert sorted(found(described(machine)), key=str) == sorted(everything, key=str)
        machine.restart()
    assert machine.broker.quotas.is_on
    alter(machine, {"user": "alice", "client-id": None}, producer_byte_rate=None, request_percentage=None)
    alter(machine, {"user": None}, consumer_byte_rate=None)
    assert found(described(machine)) == [({"ip": "10.0.0.1"}, {"connection_creation_rate": 5.0})]
    assert not machine.broker.quotas.is_on


@pytest.mark.parametrize(
    ("components", "strict", "names"),
    [
        ([], False, ["alice", "alice app", "default", "app"]),
        ([("user", 0, "alice")], False, ["alice", "alice app"]),
        ([("user", 0, "alice")], True, ["alice"]),
        ([("user", 1, None)], False, ["default"]),
        ([("user", 2, None)], True, ["alice", "default"]),
        ([("client-id", 2, None)], False, ["alice app", "app"]),
        ([("user", 2, None), ("client-id", 0, "app")], True, ["alice app"]),
    ],
)
def test_a_filter_lets_through_what_it_names(components: list[tuple[str, int, str | None]], strict: bool, names: list[str]) -> None:
    machine = Machine()
    all_of_them: dict[str, Names] = {
        "alice": {"user": "alice"},
        "alice app": {"user": "alice", "client-id": "app"},
        "default": {"user": None},
        "app": {"client-id": "app"},
    }
    for entity in all_of_them.values():
        alter(machine, entity, producer_byte_rate=1)
    seen = [entity for entity, _ in found(described(machine, *components, strict=strict))]
    assert sorted(map(str, seen)) == sorted(str(all_of_them[name]) for name in names)


@pytest.mark.parametrize(
    ("components", "error_code", "sentence"),
    [
        ([("", 0, "a")], INVALID_REQUEST, "Invalid empty entity type"),
        ([("group", 0, "a")], UNSUPPORTED_VERSION, "Unsupported entity type group"),
        ([("user", 0, "a"), ("user", 2, None)], INVALID_REQUEST, "cannot appear more than once"),
        ([("user", 0, None)], INVALID_REQUEST, "set match string to null"),
        ([("user", 1, "a")], INVALID_REQUEST, "also specified a match string"),
        ([("user", 2, "a")], INVALID_REQUEST, "also specified a match string"),
        ([("user", 3, None)], INVALID_REQUEST, "Unknown match type 3"),
        ([("ip", 2, None), ("user", 2, None)], INVALID_REQUEST, "IP filter component should not be used"),
    ],
)
def test_a_filter_that_makes_no_sense_is_refused(
    components: list[tuple[str, int, str | None]], error_code: int, sentence: str
) -> None:
    response = described(Machine(), *components)
    assert (response.error_code, response.entries) == (error_code, None)
    assert sentence in response.error_message


def test_each_entity_of_a_request_has_a_result_of_its_own() -> None:
    machine = Machine()
    alice = [{"entity_type": "user", "entity_name": "alice"}]
    bob = [{"entity_type": "user", "entity_name": "bob"}]
    ops = [{"key": PRODUCER_BYTE_RATE, "value": 5.0, "remove": False}]
    entries = [
        {"entity": alice, "ops": ops},
        {"entity": bob, "ops": [{"key": "nonsense", "value": 5.0, "remove": False}]},
        {"entity": alice, "ops": ops},
    ]
    response = machine.ask(ALTER, 1, request(ALTER, 1, entries=entries))
    assert [entry.error_code for entry in response.entries] == [NONE, INVALID_REQUEST, INVALID_REQUEST]
    assert found(described(machine)) == [({"user": "alice"}, {PRODUCER_BYTE_RATE: 5.0})]


def test_what_is_only_validated_changes_nothing() -> None:
    machine = Machine()
    assert alter(machine, {"user": "alice"}, validate_only=True, producer_byte_rate=5) == (NONE, None)
    assert alter(machine, {"user": "alice"}, validate_only=True, producer_byte_rate=-5)[0] == INVALID_REQUEST
    assert found(described(machine)) == []


def test_without_quotas_replies_become_bytes_without_a_look_at_any() -> None:
    machine = Machine()
    create(machine, "t")
    alter(machine, {"user": "bob"}, producer_byte_rate=1)
    assert produce(machine, b"x" * 100).error_code == NONE
    assert machine.rest_ms == 0


def test_a_producer_beyond_its_quota_is_answered_at_once_and_rests_for_what_it_owes() -> None:
    machine = Machine()
    create(machine, "t")
    alter(machine, ANONYMOUS, producer_byte_rate=1000)
    assert produce(machine, b"x").error_code == NONE
    machine.pass_time(60_000)
    assert produce(machine, b"x" * 500).error_code == NONE
    assert machine.rest_ms == 0
    assert produce(machine, b"x" * 2000).error_code == NONE
    owed_ms = machine.rest_ms
    assert 1500 < owed_ms < 2000
    machine.pass_time(owed_ms)
    produce(machine, b"x" * 100)
    assert 100 < machine.rest_ms < 400


def test_a_producer_that_wants_no_answers_rests_too() -> None:
    machine = Machine()
    create(machine, "t")
    alter(machine, ANONYMOUS, producer_byte_rate=100)
    assert begin(machine, b"x" * 500, acks=0) is None
    assert machine.rest_ms > 0


def fetch_body(session_id: int, epoch: int, *topics: str) -> FetchRequest:
    part = FetchRequest.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    named = [FetchRequest.FetchTopic(topic=topic, partitions=[part]) for topic in topics]
    return FetchRequest(max_bytes=1 << 20, session_id=session_id, session_epoch=epoch, topics=named)


def test_a_reader_gets_nothing_while_it_has_to_rest_and_loses_nothing() -> None:
    machine = Machine()
    create(machine, "t")
    for _ in range(4):
        produce(machine, b"x" * 5000)
    alter(machine, ANONYMOUS, consumer_byte_rate=1000)
    first = fetch(machine)[1]
    assert 5000 < len(first) < 6000
    response = machine.ask(FETCH, 11, fetch_body(0, -1, "t"))
    assert response.responses == []
    assert response.throttle_time_ms == machine.rest_ms > 4000
    machine.pass_time(machine.rest_ms)
    assert fetch(machine)[1] == first


def test_a_session_goes_on_after_a_rest() -> None:
    machine = Machine()
    create(machine, "t")
    produce(machine, b"x" * 5000)
    session_id = machine.ask(FETCH, 11, fetch_body(0, 0, "t")).session_id
    alter(machine, ANONYMOUS, consumer_byte_rate=1000)
    assert machine.ask(FETCH, 11, fetch_body(session_id, 1, "t")).responses
    rested = machine.ask(FETCH, 11, fetch_body(session_id, 2))
    assert (rested.session_id, rested.error_code, rested.responses) == (session_id, NONE, [])
    assert rested.throttle_time_ms > 0
    machine.pass_time(rested.throttle_time_ms)
    again = machine.ask(FETCH, 11, fetch_body(session_id, 3))
    assert (again.session_id, again.error_code, len(again.responses)) == (session_id, NONE, 1)


def new_topics(*names: str, partitions: int = 1) -> CreateTopicsRequest:
    topic = CreateTopicsRequest.CreatableTopic
    return CreateTopicsRequest(topics=[topic(name=name, num_partitions=partitions, replication_factor=1) for name in names])


def codes(machine: Machine, version: int, body: CreateTopicsRequest) -> dict[str, int]:
    return {topic.name: topic.error_code for topic in machine.ask(CREATE, version, body).topics}


def test_partitions_beyond_the_quota_are_not_created_and_the_rest_is_told() -> None:
    machine = Machine(controller_quota_window_num=1)
    alter(machine, ANONYMOUS, controller_mutation_rate=2)
    assert codes(machine, 7, new_topics("a", "b", partitions=2)) == {"a": NONE, "b": NONE}
    assert 800 < machine.rest_ms <= 1000
    assert codes(machine, 7, new_topics("c", "a")) == {"c": THROTTLING_QUOTA_EXCEEDED, "a": TOPIC_ALREADY_EXISTS}
    assert "c" not in machine.broker.image.topics
    machine.pass_time(1000)
    assert codes(machine, 7, new_topics("c")) == {"c": NONE}


def test_clients_that_know_no_such_error_are_only_made_to_rest() -> None:
    machine = Machine(controller_quota_window_num=1)
    alter(machine, ANONYMOUS, controller_mutation_rate=2)
    assert codes(machine, 5, new_topics("a", "b", "c", partitions=3)) == {"a": NONE, "b": NONE, "c": NONE}
    assert 3000 < machine.rest_ms <= 3500


def test_deletions_and_new_partitions_count_too() -> None:
    machine = Machine(controller_quota_window_num=1)
    create(machine, "a", 5)
    create(machine, "b", 1)
    alter(machine, ANONYMOUS, controller_mutation_rate=2)
    deleted = machine.ask(DELETE, 5, DeleteTopicsRequest(topic_names=["a", "b"])).responses
    assert [(one.name, one.error_code) for one in deleted] == [("a", NONE), ("b", THROTTLING_QUOTA_EXCEEDED)]
    assert 1200 < machine.rest_ms <= 1500
    grow = CreatePartitionsRequest(topics=[CreatePartitionsRequest.CreatePartitionsTopic(name="b", count=3, assignments=None)])
    assert [one.error_code for one in machine.ask(GROW, 3, grow).results] == [THROTTLING_QUOTA_EXCEEDED]
    machine.pass_time(1500)
    assert [one.error_code for one in machine.ask(GROW, 3, grow).results] == [NONE]
    assert len(machine.broker.image.topics["b"].partitions) == 3


@pytest.fixture(scope="module")
def busy() -> Machine:
    """A broker whose only user has used far too much of its thread."""
    machine = Machine(num_partitions=2, offsets_topic_num_partitions=2)
    machine.ask(3, 1, request(3, 1, topics=[{"name": "there"}]))
    alter(machine, ANONYMOUS, request_percentage=1)
    return machine


@pytest.mark.parametrize("case", SERVED, ids=named)
def test_every_version_that_has_a_place_for_it_tells_how_long_to_rest(busy: Machine, case: tuple[int, int]) -> None:
    key, version = case
    use_up(busy)
    topic = busy.broker.image.topics["there"]
    answer = busy.ask(key, version, request(key, version, **ordinary(key, "there", topic.topic_id)))
    assert not isinstance(answer, Close)
    if key in OF_BROKERS:  # the user may act for the cluster
        assert busy.rest_ms == 0
        return
    assert busy.rest_ms == 1000
    if any(field.name == "throttle_time_ms" and version in field.present for field in API[key].response.WIRE.fields):
        assert answer.throttle_time_ms == 1000


def use_up(machine: Machine) -> None:
    machine.broker.quotas.use_time(Client(machine.peer.principal, "test"), 10**12)


def test_a_request_answered_in_blocks_tells_how_long_to_rest() -> None:
    machine = Machine(controller_quota_window_num=1)
    alter(machine, ANONYMOUS, controller_mutation_rate=10)
    response = machine.ask(CREATE, 5, new_topics(*[f"t{number}" for number in range(120)]))
    assert len(response.topics) == 120
    assert response.throttle_time_ms == machine.rest_ms > 0


def test_names_of_any_length_are_kept_or_refused_and_take_no_longer_for_it() -> None:
    machine = Machine()
    for name in ("n" * 4096, "\u0000\n%é" * 500):
        assert alter(machine, {"user": name}, producer_byte_rate=10) == (NONE, None)
        assert found(described(machine, ("user", 0, name))) == [({"user": name}, {PRODUCER_BYTE_RATE: 10})]
    for entity in ({"user": "n" * 4097}, {"client-id": "é" * 2049}):
        code, sentence = alter(machine, dict(entity), producer_byte_rate=10)
        assert code == INVALID_REQUEST
        assert sentence is not None
        assert "longer than 4096 bytes" in sentence


def test_many_entities_are_decided_upon_a_few_at_a_time_and_each_once(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine()
    sizes: list[int] = []
    decide = QuotaChanges._decisions

    def counting(self: QuotaChanges, wanted: Any) -> Any:
        sizes.append(len(wanted))
        return decide(self, wanted)

    monkeypatch.setattr(QuotaChanges, "_decisions", counting)
    names = [f"user-{number}" for number in range(500)]
    entries = [
        {
            "entity": [{"entity_type": "user", "entity_name": name}],
            "ops": [{"key": PRODUCER_BYTE_RATE, "value": 10.0, "remove": False}],
        }
        for name in (*names, names[0])
    ]
    answer = machine.ask(ALTER, 1, request(ALTER, 1, entries=entries, validate_only=False))
    assert [entry.error_code for entry in answer.entries] == [NONE] * 500 + [INVALID_REQUEST]
    assert max(sizes) <= ENTITIES_AT_ONCE
    assert len(found(described(machine, ("user", 2, None)))) == 500


def test_a_produce_under_the_smallest_quota_is_answered_and_charged_once() -> None:
    machine = Machine()
    create(machine, "t")
    assert alter(machine, ANONYMOUS, producer_byte_rate=1) == (NONE, None)
    uses: list[float] = []
    use = machine.broker.quotas.use

    def counting(key: str, client: Client, amount: float) -> None:
        uses.append(amount)
        use(key, client, amount)

    machine.broker.quotas.use = counting  # type: ignore[method-assign]  # to count
    for number in range(3):
        answer = produce(machine, b"x" * 900_000)
        assert answer.error_code == NONE
        assert 0 < machine.rest_ms < 2**31
        assert len(uses) == number + 1


def test_entries_that_say_nothing_any_more_are_gone_and_those_below_a_user_stay() -> None:
    machine = Machine()
    user: Names = {"user": "u"}
    client: Names = {"client-id": "c"}
    both, address = user | client, Names({"ip": "10.0.0.1"})
    for entity in (user, client, both):
        assert alter(machine, entity, producer_byte_rate=1000.0)[0] == NONE
    assert alter(machine, address, connection_creation_rate=5.0)[0] == NONE
    assert alter(machine, user, producer_byte_rate=None)[0] == NONE
    assert len(found(described(machine))) == 3, "the entry of a client id below a user is there"
    machine.restart()
    assert len(found(described(machine))) == 3
    for entity in (client, both):
        assert alter(machine, entity, producer_byte_rate=None)[0] == NONE
    assert alter(machine, address, connection_creation_rate=None)[0] == NONE
    assert alter(machine, user, producer_byte_rate=1000.0)[0] == NONE
    assert alter(machine, user, producer_byte_rate=None)[0] == NONE
    for kind in ("users", "clients", "ips"):
        assert not machine.registry.children(f"/config/{kind}")
    assert not machine.broker.image.user_configs


@pytest.mark.parametrize("users", [("c", "d"), ("c", "d", None), (None, "d", "c")])
def test_a_users_entry_goes_with_the_last_of_his_client_ids(users: tuple[str | None, ...]) -> None:
    machine = Machine()

    def entry(client_id: str | None, value: float | None) -> dict[str, object]:
        names = {"user": "u"} | ({} if client_id is None else {"client-id": client_id})
        entity = [{"entity_type": kind, "entity_name": name} for kind, name in names.items()]
        return {"entity": entity, "ops": [{"key": "producer_byte_rate", "value": value or 0.0, "remove": value is None}]}

    for client_id in users:
        machine.ask(49, 1, request(49, 1, entries=[entry(client_id, 9.0)], validate_only=False))
    machine.ask(49, 1, request(49, 1, entries=[entry(users[0], None)], validate_only=False))
    assert machine.registry.children("/config/users") == ["u"]
    machine.ask(49, 1, request(49, 1, entries=[entry(client_id, None) for client_id in users[1:]], validate_only=False))
    assert machine.registry.children("/config/users") == []
    assert not machine.broker.image.quotas


def test_a_user_that_loses_a_quota_keeps_one_of_a_client_id_that_comes_with_the_same_request() -> None:
    machine = Machine()
    assert alter(machine, {"user": "u"}, producer_byte_rate=1000.0)[0] == NONE
    entries = [
        {
            "entity": [{"entity_type": "user", "entity_name": "u"}, {"entity_type": "client-id", "entity_name": "c"}],
            "ops": [{"key": "producer_byte_rate", "value": 9.0, "remove": False}],
        },
        {
            "entity": [{"entity_type": "user", "entity_name": "u"}],
            "ops": [{"key": "producer_byte_rate", "value": 0.0, "remove": True}],
        },
    ]
    machine.ask(49, 1, request(49, 1, entries=entries, validate_only=False))
    machine.restart()
    assert found(described(machine)) == [({"user": "u", "client-id": "c"}, {"producer_byte_rate": 9.0})]
