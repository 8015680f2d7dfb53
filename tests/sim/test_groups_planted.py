"""Mistakes planted into the broker are found by the simulation of groups, under the name of what is not true any more."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from ottla.broker.partitions.partition import Partition
from ottla.coord.classic import rebalance
from ottla.coord.consumer import reconcile
from ottla.coord.consumer.assign.draft import AssignmentDraft
from ottla.coord.consumer.group import ConsumerGroup
from ottla.coord.consumer.groups import ConsumerGroups
from ottla.coord.offsets import Offsets
from ottla.wire.errors import NONE, UNKNOWN_MEMBER_ID
from tests.sim import groups
from tests.support.planted import found

MOST_SEEDS = 150
GIVE = AssignmentDraft.assign
FILE = Offsets._file
COMMIT_ERROR = ConsumerGroup.commit_error


def leave_one_out(draft: AssignmentDraft, member_id: str, partition: Any) -> None:
    if partition.number:
        GIVE(draft, member_id, partition)


def file_most(offsets: Offsets, record: Any) -> None:
    if record.offset % 7 != 3:
        FILE(offsets, record)


def obey_who_is_out(group: ConsumerGroup, commit: Any) -> int:
    code = COMMIT_ERROR(group, commit)
    return NONE if code == UNKNOWN_MEMBER_ID else code


MISTAKES: dict[str, tuple[str, str, object, str, Callable[..., Any]]] = {
    "gives what others have": ("consumer", "one owner", ConsumerGroup, "taken_partitions", lambda group, topic_id: ()),
    "takes silence for giving back": ("consumer", "one owner", reconcile, "_still_owns", lambda revoking, owned: bool(owned)),
    "obeys everybody": ("consumer", "commits grow", ConsumerGroup, "commit_error", lambda group, commit: NONE),
    "obeys who is out": ("consumer", "the fenced are deaf", ConsumerGroup, "commit_error", obey_who_is_out),
    "answers before the sync": ("consumer", "commits stay", Partition, "when_synced", lambda partition, end, call: call(NONE)),
    "loses some commits": ("classic", "commits stay", Offsets, "_file", file_most),
    "ends no session": ("classic", "soon settled", rebalance, "session_timed_out", lambda draft, member_id: None),
    "leaves partitions out": ("consumer", "soon settled", AssignmentDraft, "assign", leave_one_out),
    "forgets sessions at a restart": ("consumer", "soon settled", ConsumerGroups, "recall", lambda consumers, now: []),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_found_and_named(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, name, owner, attribute, wrong = MISTAKES[mistake]
    monkeypatch.setattr(owner, attribute, wrong)
    assert name in found(name, partial(groups.live, kind=kind), range(MOST_SEEDS))
