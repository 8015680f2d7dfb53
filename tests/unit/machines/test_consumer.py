"""A consumer's membership, explored: every step and every answer in every state that can be reached."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from contextlib import suppress

from ottla.client.connection.versions import HEARTBEAT, JOIN_GROUP, SYNC_GROUP
from ottla.client.consumer.membership import PROTOCOL_TYPE, GroupAnswer, Lose, Membership, Phase, Revoke, SendRequest
from ottla.client.consumer.subscription_bytes import encode_assignment
from ottla.client.errors import BrokerError, ConnectionFailed
from ottla.client.settings.clients import ConsumerSettings
from ottla.client.types import TopicPartition
from ottla.wire import errors as codes
from ottla.wire.api.heartbeat import HeartbeatResponse
from ottla.wire.api.join_group import JoinGroupResponse
from ottla.wire.api.sync_group import SyncGroupResponse
from tests.support.transitions import differences, explored

Event = Callable[[Membership], object]
NOW_MS = 1_000_000
SHARE = encode_assignment([TopicPartition("t", 0)])
ANSWERS: Mapping[int, Callable[[int], GroupAnswer]] = {
    JOIN_GROUP: lambda code: JoinGroupResponse(error_code=code, member_id="me", protocol_name=None),
    SYNC_GROUP: lambda code: SyncGroupResponse(error_code=code),
    HEARTBEAT: lambda code: HeartbeatResponse(error_code=code),
}


def asked(machine: Membership) -> SendRequest | None:
    """The next request; a revocation on the way is done at once. A member that is about to rejoin asks for nothing else."""
    if machine.phase is Phase.STABLE and machine._rejoin:
        return None
    machine._not_before_ms = 0
    machine._heartbeat_ms = min(machine._heartbeat_ms, NOW_MS)
    step = machine.next(NOW_MS)
    while isinstance(step, Revoke | Lose):
        machine.finish_revoke(step.partitions)
        step = machine.next(NOW_MS)
    return step if isinstance(step, SendRequest) else None


def after(api_key: int, happens: Callable[[Membership, SendRequest], object]) -> Event:
    """Something that happens to a request of this API, if that is what is sent next."""

    def happen(machine: Membership) -> None:
        ask = asked(machine)
        if ask is not None and ask.api_key == api_key:
            happens(machine, ask)

    return happen


def answer(message: GroupAnswer, api_key: int) -> Event:
    return after(api_key, lambda machine, ask: machine.on_answer(message, NOW_MS))


def refused(code: int) -> Event:
    """The answer to whatever is sent next."""

    def happen(machine: Membership) -> None:
        ask = asked(machine)
        if ask is not None:
            with suppress(BrokerError):
                machine.on_answer(ANSWERS[ask.api_key](code), NOW_MS)

    return happen


def broken(machine: Membership) -> None:
    ask = asked(machine)
    if ask is not None:
        machine.broken(ask, ConnectionFailed("broken"), NOW_MS)


def joined(leader: str) -> JoinGroupResponse:
    return JoinGroupResponse(generation_id=1, protocol_type=PROTOCOL_TYPE, protocol_name="range", leader=leader, member_id="me")


def shared_out(machine: Membership) -> None:
    if machine.phase is Phase.PLANNING:
        machine.share_out({"t": 1})


def assigned(machine: Membership) -> None:
    asked(machine)
    if machine.phase is Phase.ADOPT:
        machine.finish_assign(NOW_MS)


def subscribed(machine: Membership) -> None:
    machine.rejoin()
    machine.next(NOW_MS)


EVENTS: dict[str, Event] = {
    "joined as leader": answer(joined("me"), JOIN_GROUP),
    "joined": answer(joined("other"), JOIN_GROUP),
    "shared out": shared_out,
    "synced": answer(SyncGroupResponse(assignment=SHARE), SYNC_GROUP),
    "assigned": assigned,
    "rejoin": subscribed,
    "rebalance": refused(codes.REBALANCE_IN_PROGRESS),
    "member gone": refused(codes.UNKNOWN_MEMBER_ID),
    "coordinator gone": refused(codes.NOT_COORDINATOR),
    "connection broken": broken,
    "step failed": lambda machine: machine.begin_anew(NOW_MS),
    "commit fenced": lambda machine: machine.commit_refused(codes.ILLEGAL_GENERATION, machine.generation_id),
    "leave": Membership.leave,
}


def key(machine: Membership) -> Hashable:
    return machine.phase, machine.generation_id, machine._lost, machine._rejoin, bool(machine.owned), bool(machine.member_id)


def test_every_transition_of_a_consumer_is_in_its_table() -> None:
    start = Membership(ConsumerSettings(group_id="g", partition_assignment_strategy=("range",)), topics=["t"])
    assert differences("ottla.client.consumer.membership", explored(start, EVENTS, lambda machine: machine.phase.name, key)) == {}
