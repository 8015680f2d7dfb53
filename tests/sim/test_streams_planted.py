"""Mistakes planted into streams groups are found by their simulation, under the name of what is not true any more."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from ottla.broker.partitions.partition import Partition
from ottla.coord.offsets import Offsets
from ottla.coord.streams import draft, heartbeat, leave, membership, reconcile, response, target
from ottla.coord.streams import group as streams
from ottla.coord.streams.group import StreamsGroup
from ottla.coord.streams.groups import StreamsGroups
from ottla.coord.streams.holders import TaskHolders
from ottla.coord.streams.member import NOTHING_HELD, AssignedTasks
from ottla.coord.streams.records import StreamsEpochStored
from ottla.coord.streams.values import TaskSets
from ottla.wire.errors import NONE, UNKNOWN_MEMBER_ID
from tests.sim import groups
from tests.support.planted import found

MOST_SEEDS = 100
FIRST_SEED = {"tells tasks once": 50}
"""Where to begin with mistakes that few seeds find."""
FILE = Offsets._file
COMMIT_ERROR = StreamsGroup.commit_error
CURRENT_RECORD = draft.current_record
RESPONSE = response.response_to
ASSIGNED = target._assign
APPLY = streams._APPLY
REMOVE = TaskHolders.remove


def file_most(offsets: Offsets, record: Any) -> None:
    if record.offset % 7 != 3:
        FILE(offsets, record)


def obey_who_is_out(group: StreamsGroup, commit: Any) -> int:
    code = COMMIT_ERROR(group, commit)
    return NONE if code == UNKNOWN_MEMBER_ID else code


def forget_what_must_be_revoked(group_id: str, member: Any) -> Any:
    return CURRENT_RECORD(group_id, member)._replace(revoking=NOTHING_HELD)


def tell_tasks_once(drafted: Any, body: Any, settled: Any, configured: Any, *, includes_tasks: bool, endpoint_epoch: int) -> Any:
    known = drafted.group.members.get(settled.member_id)
    is_changed = not body.member_epoch or known is None or known.assigned != settled.assigned
    return RESPONSE(drafted, body, settled, configured, includes_tasks=is_changed, endpoint_epoch=endpoint_epoch)


def leave_one_out(*inputs: Any) -> Any:
    assigned = yield from ASSIGNED(*inputs)
    kept = {name: {key: held - {0} for key, held in tasks.active.items() if held - {0}} for name, tasks in assigned.items()}
    return {name: tasks._replace(active=kept[name]) for name, tasks in assigned.items()}


def assign_to_two(*inputs: Any) -> Any:
    assigned = yield from ASSIGNED(*inputs)
    every = {key: held for tasks in assigned.values() for key, held in tasks.active.items()}
    return dict.fromkeys(assigned, TaskSets(every))


def keep_the_epoch(group: StreamsGroup, event: Any) -> None:
    APPLY[StreamsEpochStored](group, event._replace(epoch=max(1, event.epoch - 1)))


def revoke_at_once(member: Any, epoch: int, aim: Any, around: Any) -> Any:
    return NEXT(member, epoch, aim, around._replace(owned=TaskSets()))


NEXT = reconcile._next


def release_too_much(holders: TaskHolders, member_id: str, tasks: AssignedTasks) -> None:
    REMOVE(holders, member_id, tasks)
    for partitions in holders.active.values():
        partitions.pop(0, None)


MISTAKES: dict[str, tuple[str, object, str, Callable[..., Any] | dict[type, Any]]] = {
    "gives what others have": ("tasks are held once", StreamsGroup, "active_process", lambda group, name, partition: None),
    "lets a process have a task twice": ("tasks are held once", StreamsGroup, "has_copy", lambda group, *place: False),
    "takes silence for giving back": ("one owner", reconcile, "_still_owns", lambda revoking, owned: False),
    "forgets what must be revoked": ("one owner", membership, "current_record", forget_what_must_be_revoked),
    "does not wait for revocation": ("one owner", reconcile, "_next", revoke_at_once),
    "releases tasks that others have": ("one owner", TaskHolders, "remove", release_too_much),
    "obeys everybody": ("commits grow", StreamsGroup, "commit_error", lambda group, commit: NONE),
    "obeys who is out": ("the fenced are deaf", StreamsGroup, "commit_error", obey_who_is_out),
    "answers before the sync": ("commits stay", Partition, "when_synced", lambda partition, end, call: call(NONE)),
    "loses some commits": ("commits stay", Offsets, "_file", file_most),
    "ends no session": ("soon settled", leave, "timed_out", lambda draft, key: None),
    "forgets sessions at a restart": ("soon settled", StreamsGroups, "recall", lambda kind, now: []),
    "leaves tasks out": ("soon settled", target, "_assign", leave_one_out),
    "assigns a task to all": ("soon settled", target, "_assign", assign_to_two),
    "tells tasks once": ("both agree", heartbeat, "response_to", tell_tasks_once),
    "raises no epoch": ("epochs rise", streams, "_APPLY", {**APPLY, StreamsEpochStored: keep_the_epoch}),
    "never releases a task": ("soon settled", TaskHolders, "remove", lambda holders, member_id, tasks: None),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_streams_groups_is_found_and_named(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, owner, attribute, wrong = MISTAKES[mistake]
    monkeypatch.setattr(owner, attribute, wrong)
    first = FIRST_SEED.get(mistake, 0)
    assert name in found(name, partial(groups.live, kind="streams"), range(first, first + MOST_SEEDS))
