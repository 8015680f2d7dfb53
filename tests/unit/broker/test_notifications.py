"""Two brokers of a cluster, and tools beside them: what one changes is in force on the other."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from ottla.broker.membership.notifications import KEPT_MS, READ_AT_ONCE
from ottla.cluster import layout
from ottla.cluster.acls import Resource
from ottla.cluster.metadata import MetadataEvent, UserChanged
from ottla.cluster.quotas import QuotaEntity
from ottla.cluster.scram import ScramUpsertion
from ottla.ports import Change
from ottla.sasl.scram import SHA_256
from ottla.sim.ensemble import SimEnsemble
from ottla.sim.world import World
from ottla.wire.api.alter_client_quotas import AlterClientQuotasRequest
from ottla.wire.api.create_acls import CreateAclsRequest
from ottla.wire.api.incremental_alter_configs import IncrementalAlterConfigsRequest
from tests.support.cluster_members import PreparedBroker

CREATE_ACLS, ALTER_CONFIGS, ALTER_QUOTAS = 30, 44, 49
FEATURES = b'{"features":{"group.version":{"min_version_level":1,"max_version_level":1}},"version":2,"status":1}'
KEY = b64encode(bytes(32))
QUOTA = b'{"version":1,"config":{"producer_byte_rate":"1000"}}'
SCRAM = b'{"version":1,"config":{"SCRAM-SHA-256":"salt=c2FsdA==,stored_key=%s,server_key=%s,iterations=4096"}}' % (KEY, KEY)
ALLOWED = b'{"version":1,"acls":[{"principal":"User:a","permissionType":"Allow","operation":"Read","host":"*"}]}'
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


@pytest.fixture
def ensemble() -> SimEnsemble:
    return SimEnsemble(World(1))


def told(entity: str) -> Change:
    return Change("/config/changes/config_change_", b'{"version":2,"entity_path":"%s"}' % entity.encode(), sequential=True)


def test_what_the_registry_holds_is_known_before_anybody_is_served(ensemble: SimEnsemble) -> None:
    ensemble.put(
        Change("/config/brokers/<default>", b'{"version":1,"config":{"message.max.bytes":"4711"}}'),
        Change("/config/brokers/2", b'{"version":1,"config":{"message.max.bytes":"17"}}'),
        Change("/config/users/alice", SCRAM),
        Change("/config/users/bob/clients/c", QUOTA),
        Change("/kafka-acl/Topic/t", ALLOWED),
        Change("/kafka-acl-extended/prefixed/Group/g", ALLOWED),
        Change("/feature", FEATURES),
    )
    broker = PreparedBroker(ensemble, 1).broker
    assert broker.settings.message_max_bytes == 4711
    assert broker.credentials.users() == ["alice"]
    assert broker.image.quotas == {QuotaEntity("bob", "c"): {"producer_byte_rate": 1000.0}}
    assert broker.quotas.is_on
    assert [(acl.resource, acl.name) for acl in broker.image.acls] == [(Resource.TOPIC, "t"), (Resource.GROUP, "g")]
    assert broker.image.features == {"group.version": 1}


def test_a_tool_writes_settings_and_tells_brokers(ensemble: SimEnsemble) -> None:
    one = PreparedBroker(ensemble, 1)
    ensemble.put(Change("/config/brokers/1", b'{"version":1,"config":{"message.max.bytes":"17"}}'), told("brokers/1"))
    assert one.world.run(5_000, lambda: one.broker.settings.message_max_bytes == 17)
    ensemble.put(Change("/config/users/<default>", QUOTA), told("users/<default>"))
    assert one.world.run(5_000, lambda: one.broker.quotas.is_on)
    ensemble.put(Change("/config/users/<default>", None), told("users/<default>"))
    assert one.world.run(5_000, lambda: not one.broker.quotas.is_on)


def test_features_are_followed_without_a_notification_as_kafka_changes_them(ensemble: SimEnsemble) -> None:
    ensemble.put(Change("/feature", FEATURES))
    one = PreparedBroker(ensemble, 1)
    ensemble.put(Change("/feature", b'{"features":{},"version":1,"status":1}'))
    assert one.world.run(5_000, lambda: one.broker.image.features == {})
    assert one.broker.features.epoch == 1
    ensemble.put(Change("/feature", FEATURES.replace(b'"status":1', b'"status":0')))
    assert one.world.run(5_000, lambda: one.broker.features.epoch == 2)
    assert one.broker.image.features == {}, "a status of 0 has all features off"


def test_quotas_altered_at_one_broker_are_in_force_at_the_others(ensemble: SimEnsemble) -> None:
    one, two = PreparedBroker(ensemble, 1), PreparedBroker(ensemble, 2)
    entity = AlterClientQuotasRequest.EntityData(entity_type="client-id", entity_name="c")
    op = AlterClientQuotasRequest.OpData(key="consumer_byte_rate", value=5000.0, remove=False)
    response = one.ask(
        ALTER_QUOTAS, 1, AlterClientQuotasRequest(entries=[AlterClientQuotasRequest.EntryData(entity=[entity], ops=[op])])
    )
    assert [entry.error_code for entry in response.entries] == [0]
    assert two.world.run(5_000, lambda: two.broker.image.quotas == {QuotaEntity(None, "c"): {"consumer_byte_rate": 5000.0}})


def test_rules_made_at_one_broker_are_in_force_at_the_others(ensemble: SimEnsemble) -> None:
    given = {"authorizer_class_name": AUTHORIZER, "super_users": "User:ANONYMOUS"}
    one, two = PreparedBroker(ensemble, 1, **given), PreparedBroker(ensemble, 2, **given)
    creation = CreateAclsRequest.AclCreation(
        resource_type=2, resource_name="t", resource_pattern_type=4, principal="User:a", host="*", operation=3, permission_type=3
    )
    assert [result.error_code for result in one.ask(CREATE_ACLS, 3, CreateAclsRequest(creations=[creation])).results] == [0]
    assert two.world.run(5_000, lambda: [acl.name for acl in two.broker.image.acls] == ["t"])
    [path] = ensemble.children("/kafka-acl-extended-changes")
    assert path == "acl_changes_0000000000"


def test_settings_of_all_brokers_altered_at_one_are_in_force_at_the_others(ensemble: SimEnsemble) -> None:
    one, two = PreparedBroker(ensemble, 1), PreparedBroker(ensemble, 2)
    config = IncrementalAlterConfigsRequest.AlterableConfig(name="message.max.bytes", config_operation=0, value="4711")
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(resource_type=4, resource_name="", configs=[config])
    response = one.ask(ALTER_CONFIGS, 1, IncrementalAlterConfigsRequest(resources=[resource]))
    assert [result.error_code for result in response.responses] == [0]
    assert one.broker.settings.message_max_bytes == 4711
    assert two.world.run(5_000, lambda: two.broker.settings.message_max_bytes == 4711)


def test_what_was_missed_while_the_registry_was_away_is_read_when_it_is_back(ensemble: SimEnsemble) -> None:
    one = PreparedBroker(ensemble, 1)
    one.registry.lose_connection()
    ensemble.put(Change("/config/users/alice", SCRAM), told("users/alice"))
    assert one.world.run(30_000, lambda: one.broker.credentials.users() == ["alice"])


def test_a_change_is_read_in_the_end_if_the_registry_goes_between_its_notification_and_its_entry(
    ensemble: SimEnsemble, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = PreparedBroker(ensemble, 1)
    read = one.registry.read
    lost: list[Sequence[str]] = []

    def losing(paths: Sequence[str], **watched: Any) -> Any:
        if "/config/users/alice" in paths and not lost:
            lost.append(paths)
            one.registry.lose_connection()
        return read(paths, **watched)

    monkeypatch.setattr(one.registry, "read", losing)
    ensemble.put(Change("/config/users/alice", SCRAM), told("users/alice"))
    assert one.world.run(30_000, lambda: one.broker.credentials.users() == ["alice"])
    assert lost


def test_a_removal_is_followed_where_the_registry_goes_between_two_of_many_reads(
    ensemble: SimEnsemble, monkeypatch: pytest.MonkeyPatch
) -> None:
    ensemble.put(Change("/config/users/alice", QUOTA))
    one = PreparedBroker(ensemble, 1)
    assert one.broker.quotas.is_on
    read = one.registry.read
    lost: list[Sequence[str]] = []

    def losing(paths: Sequence[str], **watched: Any) -> Any:
        if not lost and "/config/users/alice" not in paths and f"/config/topics/t{READ_AT_ONCE}" in paths:
            lost.append(paths)
            one.registry.lose_connection()
        return read(paths, **watched)

    monkeypatch.setattr(one.registry, "read", losing)
    others = [told(f"topics/t{number}") for number in range(READ_AT_ONCE + 50)]
    ensemble.put(Change("/config/users/alice", None), told("users/alice"), *others)
    assert one.world.run(30_000, lambda: not one.broker.quotas.is_on)
    assert lost


def test_an_entry_made_here_while_its_removal_is_followed_stays_known(
    ensemble: SimEnsemble, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = "/config/users/alice"
    ensemble.put(Change(path, QUOTA))
    one = PreparedBroker(ensemble, 1)
    take = one.broker.publisher.apply_events

    def made_meanwhile(*events: MetadataEvent) -> Any:
        if UserChanged("alice", {}) in one.broker.publisher._pending:
            one.broker._known_entries.add(path)  # as a commit of this broker does
        return take(*events)

    monkeypatch.setattr(one.broker.publisher, "apply_events", made_meanwhile)
    ensemble.put(Change(path, None), told("users/alice"))
    assert one.world.run(30_000, lambda: not one.broker.quotas.is_on)
    assert path in one.broker._known_entries


def test_a_rule_that_another_removes_before_its_maker_has_read_it_back_is_gone_for_its_maker_too(ensemble: SimEnsemble) -> None:
    one = PreparedBroker(ensemble, 1, authorizer_class_name=AUTHORIZER, super_users="User:ANONYMOUS")
    rule = "/kafka-acl/Topic/t"

    def remove(paths: Iterable[str]) -> None:
        if rule in paths:
            ensemble.after_commit.remove(remove)
            ensemble.put(Change(rule, None), Change("/kafka-acl-changes/acl_changes_", b"Topic:t", sequential=True))

    ensemble.after_commit.append(remove)
    creation = CreateAclsRequest.AclCreation(
        resource_type=2, resource_name="t", resource_pattern_type=3, principal="User:a", host="*", operation=3, permission_type=3
    )
    assert [result.error_code for result in one.ask(CREATE_ACLS, 3, CreateAclsRequest(creations=[creation])).results] == [0]
    assert one.world.run(5_000, lambda: not list(one.broker.image.acls))
    assert ensemble.get(rule) is None


def test_old_notifications_are_removed(ensemble: SimEnsemble) -> None:
    one = PreparedBroker(ensemble, 1)
    ensemble.put(told("users/alice"))
    one.world.run(KEPT_MS + 1_000)
    ensemble.put(told("users/bob"))
    assert one.world.run(5_000, lambda: ensemble.children("/config/changes") == ["config_change_0000000001"])


@pytest.mark.expects_errors("cannot be parsed")
def test_an_entry_that_is_no_json_keeps_a_broker_from_serving_and_is_named(ensemble: SimEnsemble) -> None:
    ensemble.put(Change("/kafka-acl/Topic/t", b"\xff"))
    refused = PreparedBroker(ensemble, 1).refused
    assert refused.startswith("The registry's entry /kafka-acl/Topic/t cannot be parsed")
    assert ensemble.get("/kafka-acl/Topic/t").value == b"\xff"  # type: ignore[union-attr]  # it is there


@pytest.mark.expects_errors("cannot be parsed", "cannot be applied")
def test_what_makes_no_sense_while_a_broker_runs_changes_nothing(ensemble: SimEnsemble) -> None:
    ensemble.put(Change("/config/brokers/1", b'{"version":1,"config":{"message.max.bytes":"17"}}'))
    one = PreparedBroker(ensemble, 1)
    ensemble.put(Change("/config/brokers/1", b"junk"), told("brokers/1"))
    one.world.run(5_000)
    ensemble.put(Change("/config/brokers/1", b'{"version":1,"config":{"message.max.bytes":"many"}}'), told("brokers/1"))
    one.world.run(5_000)
    assert one.broker.settings.message_max_bytes == 17
    ensemble.put(Change("/config/changes/config_change_", b"junk", sequential=True))
    ensemble.put(Change("/config/brokers/1", b'{"version":1,"config":{"message.max.bytes":"18"}}'), told("brokers/1"))
    assert one.world.run(5_000, lambda: one.broker.settings.message_max_bytes == 18)


def salts(*members: PreparedBroker) -> set[tuple[bytes, int]]:
    """The salts and iterations that these brokers show to somebody who does not exist."""
    shown = [member.broker.credentials.fake_credential("mallory", SHA_256) for member in members]
    return {(credential.salt, credential.iterations) for credential in shown}


def test_all_brokers_show_the_same_salt_of_an_unknown_user_from_their_start_on(ensemble: SimEnsemble) -> None:
    ensemble.put(Change("/config/users/alice", SCRAM.replace(b"4096", b"8192")))
    one, two = PreparedBroker(ensemble, 1), PreparedBroker(ensemble, 2)
    ((salt, iterations),) = salts(one, two)
    assert (len(salt), iterations) == (4, 8192)


def test_brokers_that_make_the_secret_at_once_end_in_one(ensemble: SimEnsemble) -> None:
    one, two = PreparedBroker(ensemble, 1), PreparedBroker(ensemble, 2)
    ensemble.put(Change(layout.UNKNOWN_USERS, None))
    assert one.world.run(5_000, lambda: one.broker.image.unknown_users is two.broker.image.unknown_users is None)
    assert len(salts(one, two)) == 2
    for each in (one, two):
        each.broker.scheduler.begin("secret", each.broker.credentials.hide_unknown_users())
    one.world.run(5_000)
    assert len(salts(one, two)) == 1
    assert ensemble.get(layout.UNKNOWN_USERS) is not None


def test_the_first_credential_of_a_cluster_gives_its_likeness_on_all_brokers(ensemble: SimEnsemble) -> None:
    one, two = PreparedBroker(ensemble, 1), PreparedBroker(ensemble, 2)
    wanted = ScramUpsertion("alice", SHA_256.number, 5000, b"salt", bytes(32))
    one.broker.scheduler.begin("alter", one.broker.credentials.alter([], [wanted]))
    two.world.run(5_000)
    ((_, iterations),) = salts(one, two)
    assert iterations == 5000


def quota(user: str | None, client_id: str | None, value: float | None) -> AlterClientQuotasRequest:
    """A request that sets or, with None, removes one quota."""
    named = {"user": user, "client-id": client_id}
    entity = [AlterClientQuotasRequest.EntityData(entity_type=kind, entity_name=name) for kind, name in named.items() if name]
    op = AlterClientQuotasRequest.OpData(key="consumer_byte_rate", value=value or 0.0, remove=value is None)
    return AlterClientQuotasRequest(entries=[AlterClientQuotasRequest.EntryData(entity=entity, ops=[op])])


@pytest.mark.parametrize(("user", "client_id", "root"), [("u", None, "users"), ("u", "c", "users"), (None, "c", "clients")])
def test_entries_for_which_nothing_is_set_any_more_are_gone(
    ensemble: SimEnsemble, user: str | None, client_id: str | None, root: str
) -> None:
    one, two = PreparedBroker(ensemble, 1), PreparedBroker(ensemble, 2)
    one.ask(ALTER_QUOTAS, 1, quota(user, client_id, 5000.0))
    assert two.world.run(5_000, lambda: bool(two.broker.image.quotas))
    assert len(ensemble.children(f"/config/{root}")) == 1
    assert two.ask(ALTER_QUOTAS, 1, quota(user, client_id, None)).entries[0].error_code == 0
    assert ensemble.children(f"/config/{root}") == []
    assert one.world.run(5_000, lambda: not one.broker.image.quotas)
    one.ask(ALTER_QUOTAS, 1, quota(user, client_id, 6000.0))
    assert two.world.run(5_000, lambda: bool(two.broker.image.quotas)), "and may come again"


def test_a_users_entry_stays_while_something_is_set_in_or_below_it(ensemble: SimEnsemble) -> None:
    one = PreparedBroker(ensemble, 1)
    for client_id in (None, "c", "d"):
        one.ask(ALTER_QUOTAS, 1, quota("u", client_id, 5000.0))
    for client_id in ("c", None):
        one.ask(ALTER_QUOTAS, 1, quota("u", client_id, None))
        assert ensemble.children("/config/users/u/clients") == ["d"]
    one.ask(ALTER_QUOTAS, 1, quota("u", "d", None))
    assert ensemble.children("/config/users") == []


@pytest.mark.parametrize("is_read", [False, True])
def test_a_quota_that_another_broker_puts_below_a_user_meanwhile_stays(
    ensemble: SimEnsemble, monkeypatch: pytest.MonkeyPatch, *, is_read: bool
) -> None:
    one = PreparedBroker(ensemble, 1)
    one.ask(ALTER_QUOTAS, 1, quota("u", None, 5000.0))
    lists, other = one.registry.list, [Change("/config/users/u/clients/c", QUOTA)]

    def listed(paths: Sequence[str], **watched: Any) -> Any:
        """Another broker's change comes just before, or after, that is read."""
        late = "/config/users/u/clients" in paths and bool(other)
        if late and is_read:
            ensemble.put(other.pop())
        found = yield from lists(paths, **watched)
        if late and not is_read:
            ensemble.put(other.pop())
        return found

    monkeypatch.setattr(one.registry, "list", listed)
    assert one.ask(ALTER_QUOTAS, 1, quota("u", None, None)).entries[0].error_code == 0
    assert not other
    entry, pair = ensemble.get("/config/users/u"), ensemble.get("/config/users/u/clients/c")
    assert entry is not None
    assert pair is not None
    assert [entry.value, pair.value] == [layout.config_json({}), QUOTA]


def test_a_user_and_the_last_of_his_client_ids_go_in_one_request(ensemble: SimEnsemble) -> None:
    one = PreparedBroker(ensemble, 1)
    for client_id in (None, "c"):
        one.ask(ALTER_QUOTAS, 1, quota("u", client_id, 5000.0))
    both = [quota("u", client_id, None).entries[0] for client_id in ("c", None)]
    answer = one.ask(ALTER_QUOTAS, 1, AlterClientQuotasRequest(entries=both))
    assert [entry.error_code for entry in answer.entries] == [0, 0]
    assert ensemble.children("/config/users") == []
