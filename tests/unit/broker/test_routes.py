"""A new API is its declaration and one handler: found by its request's class, given the rooms it takes, announced, and bounded."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

import pytest

from ottla.broker import handlers
from ottla.broker.releases import Dialect
from ottla.broker.serving.api_table import apis
from ottla.broker.serving.authorization import Need, Operation, Resource
from ottla.broker.serving.purgatory import Reply
from ottla.broker.serving.request import Close, Request
from ottla.broker.serving.router import Router
from ottla.broker.serving.routes import Route, Served, serves
from ottla.cluster.image import ClusterImage
from ottla.ports import Steps, StorageFailed
from ottla.wire.api.api_versions import ApiVersionsRequest
from ottla.wire.api.heartbeat import HeartbeatRequest
from ottla.wire.api.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from ottla.wire.errors import KAFKA_STORAGE_ERROR
from tests.support.machine import Machine, OpenMachine
from tests.support.producing import create
from tests.support.routes import all_routes

LIST_TRANSACTIONS, API_VERSIONS = 66, 18


@serves(ListTransactionsRequest, newest=1, most=10)
def list_transactions(request: Request[ListTransactionsRequest], cluster: ClusterImage) -> Reply:
    """A toy: it lists the topics."""
    State = ListTransactionsResponse.TransactionState
    return ListTransactionsResponse(transaction_states=[State(transactional_id=name) for name in cluster.topics])


@pytest.fixture
def machine() -> Machine:
    return OpenMachine(routes=[list_transactions])


def test_a_handler_is_asked_what_its_api_is_asked_and_takes_the_rooms_of_its_annotations(machine: Machine) -> None:
    create(machine, "t")
    response = machine.ask(LIST_TRANSACTIONS, 1, ListTransactionsRequest())
    assert [state.transactional_id for state in response.transaction_states] == ["t"]


def test_what_is_served_is_announced_in_the_versions_that_are_served(machine: Machine) -> None:
    announced = {
        one.api_key: (one.min_version, one.max_version) for one in machine.ask(API_VERSIONS, 0, ApiVersionsRequest()).api_keys
    }
    assert announced[LIST_TRANSACTIONS] == (0, 1)


def test_a_version_that_its_handler_does_not_serve_closes_the_connection(machine: Machine) -> None:
    answer = machine.ask(LIST_TRANSACTIONS, 2, ListTransactionsRequest())
    assert answer == Close("API 66 is served in versions 0 to 1, and version 2 was asked for")


def test_two_handlers_of_one_api_are_refused_at_the_start() -> None:
    with pytest.raises(TypeError, match="ListTransactions has two handlers"):
        Served((), [list_transactions, list_transactions])


def test_a_room_that_there_is_not_is_named_at_the_start() -> None:
    @serves(ListTransactionsRequest, most=10)
    def lost(request: Request[ListTransactionsRequest], attic: bytes) -> Reply:
        return ListTransactionsResponse()

    with pytest.raises(TypeError, match="takes a room that this broker has not: attic"):
        OpenMachine(routes=[lost])


@pytest.mark.expects_errors("disk refused it")
def test_a_failure_of_the_disk_in_a_later_step_is_answered_as_one_at_once() -> None:
    @serves(ListTransactionsRequest, most=10)
    def failing(request: Request[ListTransactionsRequest]) -> Steps[Reply]:
        yield None
        raise StorageFailed("t-0", "No space left on device")

    machine = OpenMachine(routes=[failing])
    assert machine.ask(LIST_TRANSACTIONS, 1, ListTransactionsRequest()).error_code == KAFKA_STORAGE_ERROR


def test_the_table_of_apis_has_every_handler_with_its_module_and_its_versions() -> None:
    """Brokers announce what the table says before any handler is imported."""
    declared = {
        (route.api.key, route.api.name, found.name, route.versions)
        for found in iter_modules(handlers.__path__)
        for route in vars(import_module(f"{handlers.__name__}.{found.name}")).values()
        if isinstance(route, Route)
    }
    listed = {(api.key, api.name, api.module, api.switched) for api in {*apis(), *apis(for_brokers=True)}}
    assert listed == declared, "write a line `<module> <API>` for it in HANDLERS of broker/serving/api_table.py"


def test_every_handler_takes_objects_that_brokers_have(machine: Machine) -> None:
    router = machine.broker.routers[Dialect.VERSIONED]
    assert isinstance(router, Router)
    assert len(router.unbound) > 50, "handlers are imported with their first request"
    for key in list(router.unbound):
        router.bind(key)
    assert not router.unbound


def test_an_api_with_a_list_that_is_neither_divided_nor_limited_is_refused_when_it_is_declared() -> None:
    with pytest.raises(TypeError, match="ListTransactionsRequest has arrays: declare the `parts`"):
        serves(ListTransactionsRequest)


@pytest.mark.parametrize("path", ["group", "group_id.name", "member.id"])
def test_a_need_that_names_no_field_is_refused_when_it_is_declared(path: str) -> None:
    with pytest.raises(TypeError, match="HeartbeatRequest has no field"):
        serves(HeartbeatRequest, Need(Operation.READ, Resource.GROUP, path))


def test_every_handler_but_those_before_any_identity_says_what_it_needs_or_filters_by_itself() -> None:
    """What a session reads, the cluster's description, coordinators, lists and tokens are filtered where they are made."""
    free = {route.message.__name__ for route in all_routes().values() if not route.needs}
    assert free == {
        "AlterReplicaLogDirsRequest",
        "ApiVersionsRequest",
        "CreateDelegationTokenRequest",
        "DescribeClusterRequest",
        "DescribeDelegationTokenRequest",
        "ExpireDelegationTokenRequest",
        "DeleteTopicsRequest",
        "ElectLeadersRequest",
        "FetchRequest",
        "GetTelemetrySubscriptionsRequest",
        "FindCoordinatorRequest",
        "ListGroupsRequest",
        "MetadataRequest",
        "ListTransactionsRequest",
        "PushTelemetryRequest",
        "RenewDelegationTokenRequest",
        "SaslAuthenticateRequest",
        "SaslHandshakeRequest",
    }
