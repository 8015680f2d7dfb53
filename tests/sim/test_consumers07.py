"""Groups of Kafka 0.7 live through deaths, lost sessions, late watches and old reads: a share of what `make sim` does."""

from __future__ import annotations

import pytest

from ottla.kafka07.client import group
from ottla.kafka07.client.group import Group07
from ottla.ports import NEW, Change, DuplicateEntry
from tests.sim import consumers07
from tests.sim.lives import consumer07
from tests.support.planted import Mistake, found


def test_what_must_be_true_of_groups_of_0_7_is_true_whatever_happens() -> None:
    for seed in range(40):
        assert consumers07.live(seed).seed == seed  # raises what was violated


def test_a_seed_of_0_7_is_lived_the_same_way_every_time() -> None:
    assert consumers07.live(3) == consumers07.live(3)


def _share_of_the_seed_code(readers, partitions, own):  # type: ignore[no-untyped-def]  # as `group.share`
    """Adds the reader's own place only if the one before it had one more."""
    if own not in readers:
        return []
    dealt = sorted(partitions)
    each, more = divmod(len(dealt), len(readers))
    index = readers.index(own)
    start = index * each + (index if index - 1 < more else 0)
    return dealt[start : start + each + (index < more)]


def _not_stopped(self: Group07, going, own):  # type: ignore[no-untyped-def]  # as `Group07._stop`
    """Gives entries back and goes on reading."""
    self._doubtful |= going
    yield from ()


def _not_released(self: Group07, going, own):  # type: ignore[no-untyped-def]  # as `Group07._release`
    self._doubtful -= going
    yield from ()


def _registered_anew_at_each_try(self: Group07):  # type: ignore[no-untyped-def]  # as `Group07._register`
    """Leaves behind what it has registered where it never heard of it."""
    if self._id is None:
        own = self._new_id()
        yield from self._registry.commit([Change(self._path(own), b'{ "t": 1,"u": 1 }', NEW, ephemeral=True)])
        self._id = own
    return self._id


def _taken_one_by_one(self: Group07, coming, own):  # type: ignore[no-untyped-def]  # as `Group07._claim`
    """Makes each entry by itself, and leaves those just made where one is another's."""
    for where in sorted(coming):
        try:
            change = Change(self._owner(where), self._mark(own), NEW, ephemeral=True)
            yield from self._commit_as_member([change], own)
        except DuplicateEntry:
            return set()
    self._check(own)
    self.owned |= coming
    return set(coming)


def _committed_before_it_is_read(self, partitions):  # type: ignore[no-untyped-def]  # as `SimConsumer07._placed`
    places = {where: self._places.get(where) for where in partitions if where in self.group.owned}
    return {where: place + 2 for where, place in places.items() if place is not None}


MISTAKES = [
    Mistake("all are owned", group, "share", _share_of_the_seed_code),
    Mistake("one owner", Group07, "drop_if_expired", lambda self, now_ms: []),
    Mistake("one owner", Group07, "_stop", _not_stopped),
    Mistake("all are owned", Group07, "_release", _not_released),
    Mistake("all are owned", Group07, "_register", _registered_anew_at_each_try, 40),
    Mistake("all are owned", Group07, "_claim", _taken_one_by_one),
    Mistake("all are owned", Group07, "_on_change", lambda self, path: None),
    Mistake("nothing skipped", consumer07.SimConsumer07, "_placed", _committed_before_it_is_read),
]


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.attribute)
def test_mistakes_planted_into_the_group_are_found(monkeypatch: pytest.MonkeyPatch, mistake: Mistake) -> None:
    monkeypatch.setattr(mistake.owner, mistake.attribute, mistake.wrong)
    assert mistake.name in found(mistake.name, consumers07.live, range(mistake.seed, mistake.seed + 30))


def test_partitions_are_dealt_as_text_and_the_first_readers_have_one_more() -> None:
    readers, partitions = ["a-0", "a-1", "b-0", "c-0"], ["0-0", "0-1", "0-2", "0-10", "1-0"]
    dealt = {reader: group.share(readers, partitions, reader) for reader in readers}
    assert dealt == {"a-0": ["0-0", "0-1"], "a-1": ["0-10"], "b-0": ["0-2"], "c-0": ["1-0"]}
    assert group.share(readers, ["0-0", "0-1"], "b-0") == []
