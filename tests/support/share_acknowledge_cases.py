"""Acknowledgements of share groups: records in each state, ranges right and wrong, by members with and without a session.

Each case has a group of its own, of whose ten records a member has acquired the first five. All cases of a state are prepared
together, so that what takes time (a lock that ends, a session that is released) takes it once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tests.support.share_world import KNOWN, ShareWorld

ACCEPT, RELEASE, REJECT, RENEW, GAP = 1, 2, 3, 4, 0
LIMIT = 2
"""The delivery count limit of all groups."""
LOCK_MS = 3000
"""Long enough for two fetches of another member, so that its own lock has not ended meanwhile."""
SETTLED_S = 0.7
"""A session that ended has released its records by then."""
LOADED_S = 0.2
ACQUIRED = 5
LAST = (1 << 63) - 1

Batches = list[dict[str, Any]]


def ranges(*of: tuple[int, int, list[int]]) -> Batches:
    """Return acknowledgement batches of (first offset, last offset, types)."""
    return [{"first_offset": first, "last_offset": last, "acknowledge_types": types} for first, last, types in of]


RANGES: Mapping[str, Batches] = {
    "all accepted": ranges((0, 4, [ACCEPT])),
    "all released": ranges((0, 4, [RELEASE])),
    "all rejected": ranges((0, 4, [REJECT])),
    "all gaps": ranges((0, 4, [GAP])),
    "all renewed": ranges((0, 4, [RENEW])),
    "one accepted": ranges((2, 2, [ACCEPT])),
    "each of another type": ranges((0, 4, [ACCEPT, RELEASE, REJECT, GAP, ACCEPT])),
    "two ranges": ranges((0, 1, [ACCEPT]), (3, 4, [RELEASE])),
    "ranges that follow each other": ranges((0, 1, [ACCEPT]), (2, 4, [REJECT])),
}
"""Ranges of what was acquired."""
BAD_RANGES: Mapping[str, Batches] = {
    "beyond what is acquired": ranges((0, 9, [ACCEPT])),
    "never acquired": ranges((5, 9, [ACCEPT])),
    "one good and one never acquired": ranges((0, 1, [ACCEPT]), (6, 7, [ACCEPT])),
    "beyond the end": ranges((10, 12, [ACCEPT])),
    "giant": ranges((0, LAST, [ACCEPT])),
    "giant beyond the end": ranges((LAST - 1, LAST, [RELEASE])),
    "reversed": ranges((4, 0, [ACCEPT])),
    "negative": ranges((-1, 4, [ACCEPT])),
    "all negative": ranges((-5, -1, [ACCEPT])),
    "least": ranges((-LAST - 1, -LAST, [ACCEPT])),
    "overlapping": ranges((0, 3, [ACCEPT]), (2, 4, [ACCEPT])),
    "twice": ranges((0, 1, [ACCEPT]), (0, 1, [ACCEPT])),
    "twice with other types": ranges((0, 1, [ACCEPT]), (0, 1, [RELEASE])),
    "descending": ranges((3, 4, [ACCEPT]), (0, 1, [ACCEPT])),
    "type 5": ranges((0, 4, [5])),
    "type -1": ranges((0, 4, [-1])),
    "type 127": ranges((0, 4, [127])),
    "a good and a bad type": ranges((0, 1, [ACCEPT, 9])),
    "too few types": ranges((0, 4, [ACCEPT, ACCEPT])),
    "too many types": ranges((0, 1, [ACCEPT, ACCEPT, ACCEPT])),
    "no types": ranges((0, 4, [])),
    "no range": [],
    "renewed among others": ranges((0, 1, [ACCEPT]), (2, 4, [RENEW])),
}
ALL_RANGES = {**RANGES, **BAD_RANGES}
STATES = ("acquired", "accepted", "released", "rejected", "its lock ended", "last delivery", "of another")
ELSEWHERE = (
    "all accepted",
    "all released",
    "all renewed",
    "one accepted",
    "each of another type",
    "giant",
    "beyond what is acquired",
)
"""The ranges that are tried in each state."""
WAYS = ("ShareAcknowledge", "ShareFetch")

Change = dict[str, Any]
OTHERWISE: Mapping[str, Change] = {
    "epoch 0": {"epoch": 0},
    "old epoch": {"epoch": -1, "relative": True},
    "future epoch": {"epoch": 1, "relative": True},
    "last epoch": {"epoch": (1 << 31) - 1},
    "least epoch": {"epoch": -(1 << 31)},
    "epoch -2": {"epoch": -2},
    "closing": {"epoch": -1},
    "closing without ranges": {"epoch": -1, "topics": []},
    "no topic": {"topics": []},
    "unknown member": {"member": "nobody"},
    "empty member": {"member": ""},
    "member null": {"member": None},
    "member of 36 bytes": {"member": "m" * 36},
    "member of 37 bytes": {"member": "m" * 37},
    "member of 32 000 bytes": {"member": "m" * 32_000},
    "other group": {"group": "nobody"},
    "empty group": {"group": ""},
    "group null": {"group": None},
    "unknown topic": {"place": ("unknown", 0)},
    "topic zero": {"place": (None, 0)},
    "partition not in the session": {"place": (KNOWN, 1)},
    "unknown partition": {"place": (KNOWN, 7)},
    "negative partition": {"place": (KNOWN, -1)},
    "a partition twice": {"twice": True},
    "renewing": {"more": {"is_renew_ack": True}},
    "other connection": {"line": "other"},
}
"""What else of a request may be wrong, with a range that is right."""
FETCHES: Mapping[str, Change] = {
    "renewing with records": {"more": {"is_renew_ack": True}, "ranges": "all renewed"},
    "renewing without records": {
        "more": {"is_renew_ack": True, "max_bytes": 0, "max_records": 0, "min_bytes": 0, "max_wait_ms": 0},
        "ranges": "all renewed",
    },
    "renewed without saying so": {"ranges": "all renewed"},
    "forgetting": {"more": {"forgotten_topics_data": [{"topic_id": KNOWN, "partitions": [0]}]}},
}
RENEWALS: Mapping[str, Change] = {
    "renewing": {"more": {"is_renew_ack": True}, "ranges": "all renewed"},
    "renewing and accepting": {"more": {"is_renew_ack": True}, "ranges": "renewed among others"},
    "renewing twice": {"more": {"is_renew_ack": True}, "ranges": "all renewed", "times": 2},
}


class AcknowledgeCase(NamedTuple):
    """The records' state, by which request, and what is asked."""

    state: str
    way: str
    asked: str

    def __str__(self) -> str:
        return f"{self.state}: {self.way}, {self.asked}"


def acknowledge_cases(state: str) -> list[AcknowledgeCase]:
    """Return the cases of a state."""
    found = [(way, asked) for way in WAYS for asked in (ALL_RANGES if state == "acquired" else ELSEWHERE)]
    if state == "acquired":
        found += [(way, asked) for way in WAYS for asked in OTHERWISE]
        found += [("ShareFetch", asked) for asked in FETCHES]
        found += [("ShareAcknowledge", f"{asked}, version 2") for asked in RENEWALS]
    return [AcknowledgeCase(state, *each) for each in found]


def change_of(case: AcknowledgeCase) -> Change:
    """Return what a case asks otherwise than with all of the first range accepted by its member."""
    if case.asked.endswith(", version 2"):
        return RENEWALS[case.asked.removesuffix(", version 2")]
    if case.asked in ALL_RANGES:
        return {"ranges": case.asked}
    return OTHERWISE.get(case.asked) or FETCHES[case.asked]


class Acknowledging:
    """Brings the records of share groups into a state, and acknowledges some."""

    def __init__(self, world: ShareWorld) -> None:
        self._world = world

    def answers(self, state: str) -> dict[str, Any]:
        """Return of each case of a state: the answer, what others acquire then, and what more once its session has ended."""
        cases = acknowledge_cases(state)
        lock_ms = LOCK_MS if state == "its lock ended" else 60_000
        groups = self._world.groups(len(cases), share_record_lock_duration_ms=lock_ms, share_delivery_count_limit=LIMIT)
        asked = list(zip(cases, groups, strict=True))
        epochs = {group: self._brought_to(state, group) for _, group in asked}
        if state == "its lock ended":
            time.sleep(LOCK_MS / 1000 + SETTLED_S)
        told = {group: self._met(case, group, epochs[group]) for case, group in asked}
        first = self._acquired_by_another(groups, 0)
        for _, group in asked:
            for line in ("m", "other"):
                self._world.lines.close(f"{line}-{group}")
        then = self._acquired_by_another(groups, 2)
        self._world.lines.close_all()
        return {str(case): [told[group], first[group], then[group]] for case, group in asked}

    def _acquired_by_another(self, groups: list[str], epoch: int) -> dict[str, list[list[int]]]:
        """Return what another member of each group acquires by two fetches: the first may find the share partition unloaded."""
        time.sleep(SETTLED_S)
        found = {group: self._world.acquired(f"probe-{group}", group, epoch) for group in groups}
        time.sleep(LOADED_S)
        return {group: [*found[group], *self._world.acquired(f"probe-{group}", group, epoch + 1)] for group in groups}

    def _brought_to(self, state: str, group: str) -> int:
        """Return the next epoch of the session of the member "m"."""
        world, line = self._world, f"m-{group}"
        world.join(group, "m")
        if state == "of another":
            world.acquire(f"other-{group}", group, "other", max_records=ACQUIRED, batch_size=ACQUIRED)
            opened = world.fetch(line, group, "m", 0, [(KNOWN, 1, [])])
            assert not opened.error_code, opened
            added = world.fetch(line, group, "m", 1, [(KNOWN, 0, [])], max_records=1, batch_size=1)
            assert not added.error_code, added
            return 2
        epoch = world.acquire(line, group, "m", max_records=ACQUIRED, batch_size=ACQUIRED)
        again = {"max_records": ACQUIRED, "batch_size": ACQUIRED, "max_wait_ms": 1000}
        if state == "last delivery":
            world.acknowledge(line, group, "m", epoch, [(KNOWN, 0, RANGES["all released"])])
            world.fetch(line, group, "m", epoch + 1, [], **again)
            return epoch + 2
        done = {"accepted": "all accepted", "released": "all released", "rejected": "all rejected"}.get(state)
        if done:
            world.acknowledge(line, group, "m", epoch, [(KNOWN, 0, RANGES[done])])
            return epoch + 1
        assert not world.acknowledge(line, group, "m", epoch, []).error_code
        return epoch + 1

    def _met(self, case: AcknowledgeCase, group: str, epoch: int) -> Any:
        change = change_of(case)
        told = [self._asked(case, change, group, epoch + number) for number in range(change.get("times", 1))]
        return told if len(told) > 1 else told[0]

    def _asked(self, case: AcknowledgeCase, change: Change, group: str, epoch: int) -> Any:
        world = self._world
        batches = ALL_RANGES[change.get("ranges", "all accepted")]
        places = [(*change.get("place", (KNOWN, 0)), batches)] * (2 if change.get("twice") else 1)
        given = change.get("epoch", 0) + epoch if change.get("relative") else change.get("epoch", epoch)
        more = change.get("more", {})
        by: Callable[..., Any] = world.acknowledge
        if case.way == "ShareFetch":
            by, more = world.fetch, {"max_records": 1, "batch_size": 1, **self._with_ids(more)}
        line = f"{change.get('line', 'm')}-{group}"
        told = by(line, change.get("group", group), change.get("member", "m"), given, change.get("topics", places), **more)
        return world.told(told)

    def _with_ids(self, more: dict[str, Any]) -> dict[str, Any]:
        forgotten = more.get("forgotten_topics_data", [])
        ids = [each | {"topic_id": self._world.id_of(each["topic_id"])} for each in forgotten]
        return {**more, "forgotten_topics_data": ids} if ids else more
