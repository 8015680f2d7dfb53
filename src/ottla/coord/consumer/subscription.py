"""The subscriptions of a group's members: matching of regular expressions, and whether the group needs a new epoch.

The functions add to a draft. A group checks its topics again after a change of a member's subscription or of the topics.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from ottla.coord.consumer.draft import ConsumerDraft
from ottla.coord.consumer.events import MetadataRefreshed, PatternsFound, PatternsSought
from ottla.coord.consumer.group import ConsumerGroup, Resolved
from ottla.coord.consumer.member import ConsumerMember
from ottla.coord.consumer.records import EpochStored, OldMetadataForgotten, PatternForgotten, PatternStored
from ottla.coord.member_checks import Refusal
from ottla.coord.outcome import PatternsKey
from ottla.coord.patterns import IllegalPattern, matcher
from ottla.coord.runtime.machine import Shown, every_topic
from ottla.wire.errors import INVALID_REGULAR_EXPRESSION

log = logging.getLogger("ottla.coord")

PAUSE_MS = 10
"""The pause between two steps of matching, in ms. A step takes some milliseconds, so other work gets most of the time."""

MOST_JUDGED = 1_000
"""The most topics in one step of matching, if the member's permission to see each match must be checked."""

NOT_RESOLVED = Resolved(frozenset(), 0)

SHORTEST_PATTERN_REFRESH_MS = 10_000
"""The shortest time between two matches of a group's regular expressions, however often topics are created."""


class Outlook(NamedTuple):
    """A group's epoch and matched regular expressions as they will be after the present decision.

    `changed` means that the decision changes the member's subscription.
    """

    epoch: int
    resolved: Mapping[str, Resolved]
    changed: bool

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        resolved = self.resolved.get(member.pattern) if member.pattern else None
        return member.topics if resolved is None else member.topics | resolved.topics


def evaluate(draft: ConsumerDraft, member: ConsumerMember, updated: ConsumerMember) -> Outlook | Refusal:
    """Return the epoch and regular expressions after `member` becomes `updated`. Raise the epoch if subscribed topics changed."""
    resolved = _resolve(draft, member, updated)
    if isinstance(resolved, Refusal):
        return resolved
    bump = _needs_new_epoch(draft, member, updated, resolved)
    metadata_hash = _hash(draft, member, updated, resolved)
    epoch = draft.group.epoch
    if bump or metadata_hash != draft.group.metadata_hash:
        epoch = bump_epoch(draft, metadata_hash)
    if draft.group.stale:
        draft.store(MetadataRefreshed(draft.group_id))
    return Outlook(epoch, resolved, member.topics != updated.topics or member.pattern != updated.pattern)


def _needs_new_epoch(
    draft: ConsumerDraft, member: ConsumerMember, updated: ConsumerMember, resolved: Mapping[str, Resolved]
) -> bool:
    """Return whether the subscribed topics have changed, or the draft needs a new assignment in any case.

    A new regular expression that matches no topic yet is no change, nor is a change of the assignor, because the next assignment
    uses the new assignor.
    """
    if draft.unsettled or member.topics != updated.topics:
        return True
    if member.pattern != updated.pattern:
        known = updated.pattern in draft.group.resolved
        return bool(member.pattern) or known or bool(resolved.get(updated.pattern, NOT_RESOLVED).topics)
    return any(pattern in resolved and resolved[pattern].topics != known.topics for pattern, known in draft.group.resolved.items())


def bump_epoch(draft: ConsumerDraft, metadata_hash: int) -> int:
    """Raise the group's epoch, which requires a new target assignment."""
    group = draft.group
    epoch = group.epoch + 1
    log.info("group %s: epoch %d", group.group_id, epoch, extra={"cause": "group epoch", "most": 3})
    draft.store(EpochStored(group.group_id, epoch, metadata_hash))
    if group.has_old_metadata:
        draft.store(OldMetadataForgotten(group.group_id))
    return epoch


def choose_assignor(draft: ConsumerDraft, member: ConsumerMember | None = None, updated: ConsumerMember | None = None) -> str:
    """Return the assignor that most members name. The first assignor in the settings wins a tie, and is the default."""
    votes = draft.group.assignors
    if member is not None and updated is not None and member.assignor != updated.assignor:
        votes = dict(votes)
        for name, by in ((member.assignor, -1), (updated.assignor, 1)):
            if name is not None:
                votes[name] = votes.get(name, 0) + by
    return max(draft.context.assignors, key=lambda name: votes.get(name, 0))


def _resolve(draft: ConsumerDraft, member: ConsumerMember, updated: ConsumerMember) -> Mapping[str, Resolved] | Refusal:
    """Return the group's regular expressions, each with its topics. Match new or outdated ones, or begin to match them."""
    group = draft.group
    resolved: Mapping[str, Resolved] = group.resolved
    if member.pattern != updated.pattern:
        if member.pattern and group.patterns.get(member.pattern) == 1:
            draft.store(PatternForgotten(group.group_id, member.pattern))
            resolved = {pattern: known for pattern, known in resolved.items() if pattern != member.pattern}
        is_new = bool(updated.pattern) and updated.pattern not in resolved
        return _with_new(draft, updated.pattern, resolved) if is_new else resolved
    is_due = bool(group.patterns) and not group.seeking and _is_due(draft, resolved)
    return _rematch(draft, resolved) if is_due else resolved


def _with_new(draft: ConsumerDraft, pattern: str, resolved: Mapping[str, Resolved]) -> Mapping[str, Resolved] | Refusal:
    """Return `resolved` with the topics of the new `pattern`. If matching takes long, begin it, and return `resolved` unchanged."""
    try:
        matched, end = _match_visible(draft.shown, pattern, names := draft.context.topics.names, 0)
    except IllegalPattern as illegal:
        return Refusal(INVALID_REGULAR_EXPRESSION, f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {illegal}")
    if end == len(names):
        return {**resolved, pattern: _found(draft, pattern, matched)}
    if not draft.group.seeking:
        draft.store(PatternsSought(draft.group_id))
        draft.after(PatternsKey(draft.group_id, (pattern,), names, end, matched, shown=draft.shown), PAUSE_MS)
    return resolved


def _found(draft: ConsumerDraft, pattern: str, matched: frozenset[str]) -> Resolved:
    draft.store(PatternStored(draft.group_id, pattern, matched, draft.context.topics.version, draft.now.wall_ms))
    return Resolved(matched, draft.now.wall_ms)


def _is_due(draft: ConsumerDraft, resolved: Mapping[str, Resolved]) -> bool:
    """Return whether all regular expressions must be matched again: soon after topics were created, and periodically.

    The first expression's age counts. An expression without a match was waiting when the coordinator restarted. If a match has a
    time in the future, the clock was set back.
    """
    if len(resolved) < len(draft.group.patterns) or not resolved:
        return any(pattern not in resolved for pattern in draft.group.patterns)
    age_ms = draft.now.wall_ms - next(iter(resolved.values())).wall_ms
    if age_ms < 0:
        return True
    if draft.group.stale_patterns and age_ms > SHORTEST_PATTERN_REFRESH_MS:
        return True
    return age_ms > draft.context.settings.group_consumer_regex_refresh_interval_ms


def _rematch(draft: ConsumerDraft, resolved: Mapping[str, Resolved]) -> Mapping[str, Resolved]:
    """Match all regular expressions again, and return them with their topics.

    A single expression is matched at once if that is quick. Otherwise begin to match, and return `resolved`.
    """
    patterns, names = tuple(draft.group.patterns), draft.context.topics.names
    draft.store(PatternsSought(draft.group_id))
    matched, end = _part(draft, draft.shown, patterns[0], names, 0)
    if end == len(names) and len(patterns) == 1:
        fresh = {patterns[0]: _found(draft, patterns[0], matched)}
        draft.store(PatternsFound(draft.group_id))
        return fresh
    draft.after(PatternsKey(draft.group_id, patterns, names, end, matched, shown=draft.shown), PAUSE_MS)
    return resolved


def _part(draft: ConsumerDraft, shown: Shown, pattern: str, names: tuple[str, ...], at: int) -> tuple[frozenset[str], int]:
    """Match topic names from index `at` on with a pattern, for one step. An invalid pattern matches no topics.

    Return (matching names, index at which the next step continues).
    """
    try:
        return _match_visible(shown, pattern, names, at)
    except IllegalPattern as illegal:
        log.error("group %s: '%s' is not a regular expression of RE2: %s", draft.group_id, pattern, illegal)
        return frozenset(), len(names)


def _match_visible(shown: Shown, pattern: str, names: tuple[str, ...], at: int) -> tuple[frozenset[str], int]:
    """Match visible topic names from `at` on, for one step. Return matches and the next position. Raises `IllegalPattern`.

    As in Kafka, an expression has one set of topics for the whole group: the topics visible to the member that last matched it.
    """
    matched, end = matcher(pattern).part(names, at, None if shown is every_topic else MOST_JUDGED)
    return shown(matched), end


def seek(draft: ConsumerDraft, key: PatternsKey) -> None:
    """Match regular expressions with topic names for one more step. When all are matched, store the topics of each expression."""
    if not draft.group.seeking:
        return
    if key.at == len(key.names):
        key = replace(key, patterns=key.patterns[1:], at=0, matched=frozenset(), found=(*key.found, (key.patterns[0], key.matched)))
    if not key.patterns:
        _store_matches(draft, dict(key.found))
        return
    matched, end = _part(draft, key.shown, key.patterns[0], key.names, key.at)
    draft.after(replace(key, at=end, matched=key.matched | matched), PAUSE_MS)


def _store_matches(draft: ConsumerDraft, found: Mapping[str, frozenset[str]]) -> None:
    """Store the topics of each regular expression that members still use."""
    group = draft.group
    draft.store(PatternsFound(group.group_id))
    taken = {pattern: _found(draft, pattern, topics) for pattern, topics in found.items() if pattern in group.patterns}
    resolved = {**group.resolved, **taken}
    nobody = ConsumerMember("")
    metadata_hash = draft.context.topics.hash_of(*subscribed_with(group, nobody, nobody.topics, resolved))
    changed = any(group.resolved.get(pattern, NOT_RESOLVED).topics != known.topics for pattern, known in taken.items())
    if changed or metadata_hash != group.metadata_hash:
        bump_epoch(draft, metadata_hash)


def _hash(draft: ConsumerDraft, member: ConsumerMember, updated: ConsumerMember, resolved: Mapping[str, Resolved]) -> int:
    """Return the metadata hash. Compute it only if subscribed topics or their metadata can have changed."""
    group = draft.group
    if resolved is group.resolved and not group.stale and not _changes(group, member, updated):
        return group.metadata_hash
    return draft.context.topics.hash_of(*subscribed_with(group, member, updated.topics, resolved))


def _changes(group: ConsumerGroup, member: ConsumerMember, updated: ConsumerMember) -> bool:
    """Return whether the group's set of subscribed topics can change when `member` becomes `updated`."""
    if member.topics is updated.topics or member.topics == updated.topics:
        return False
    came = bool(updated.topics) and updated.topics not in group.subscriptions
    return came or group.subscriptions.get(member.topics) == 1


def subscribed_with(
    group: ConsumerGroup, member: ConsumerMember, topics: frozenset[str], resolved: Mapping[str, Resolved]
) -> Iterator[frozenset[str]]:
    """Yield all sets of topics to which the group subscribes once `member` subscribes to `topics`."""
    for names, count in group.subscriptions.items():
        if count > 1 or names != member.topics:
            yield names
    yield topics
    for known in resolved.values():
        yield known.topics
