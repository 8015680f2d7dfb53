"""Runtime changes of quotas: stored in the registry and effective at once. Depends on no requests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from ottla.broker.topics.commits import Commits
from ottla.cluster import layout, quotas
from ottla.cluster.decision import Decision
from ottla.cluster.image import ClusterImage
from ottla.cluster.quotas import QuotaEntity, RefusedQuota
from ottla.ports import Change, Steps

ENTITIES_AT_ONCE: Final = 50
"""Entities decided between two pauses."""

Op = tuple[str, float | None]
"""A quota key and its new value; None removes the quota."""

Wanted = tuple[QuotaEntity | RefusedQuota, list[Op]]
"""An entity, or the reason why it is invalid, and its requested changes."""


class QuotaChanges:
    """Changes of client quotas in the registry. `changed` is called after each change."""

    def __init__(self, image: ClusterImage, commits: Commits, changed: Callable[[], None]) -> None:
        self._image = image
        self._commits = commits
        self._changed = changed

    def alter(self, wanted: Sequence[Wanted], *, validate_only: bool) -> Steps[list[Decision]]:
        """Alter the quotas of entities, and return a decision for each. The steps must run to their end."""
        once = _without_repetitions(wanted)
        decisions: list[Decision] = []
        for begin in range(0, len(once), ENTITIES_AT_ONCE):
            decide = partial(self._decisions, once[begin : begin + ENTITIES_AT_ONCE])
            if validate_only:
                decisions += decide()
                yield None
            else:
                decisions += yield from self._commits.commit_slowly(decide)
        if any(decision.is_made for decision in decisions):
            self._changed()
        return decisions

    def _decisions(self, wanted: Sequence[Wanted]) -> list[Decision]:
        below = {entity.user for entity, _ in wanted if isinstance(entity, QuotaEntity) and entity.client_id is not None}

        def is_removable(user: str) -> bool:
            return user not in below and self._image.can_remove_user(user)

        decisions = [self._decision(entity, ops, is_removable) for entity, ops in wanted]
        for user in below - {None}:
            self._drop_emptied(user or "", decisions)
        return decisions

    def _drop_emptied(self, user: str, decisions: list[Decision]) -> None:
        """Remove a user's entry if these decisions remove its last client id, unless it has quotas or configs of its own."""
        path, nothing = layout.user_config_path(user), layout.config_json({})
        changes = [change for decision in decisions for change in decision.changes]
        pairs = [change for change in changes if change.path.startswith(f"{path}/")]
        own = [change for change in changes if change.path == path]
        is_set = any(change.value != nothing for change in own) if own else user in self._image.user_configs
        if is_set or any(pair.value is not None for pair in pairs) or len(pairs) < max(self._image.clients_of(user), 1):
            return
        for at, decision in enumerate(decisions):
            kept = tuple(change for change in decision.changes if change.path != path)
            goes = (Change(path, None),) if decision.changes and decision.changes[-1] in (own or pairs[-1:]) else ()
            decisions[at] = replace(decision, changes=(*kept, *goes))

    def _decision(self, entity: QuotaEntity | RefusedQuota, ops: list[Op], may_go: Callable[[str], bool]) -> Decision:
        try:
            if isinstance(entity, RefusedQuota):
                raise entity
            after = quotas.alter(entity, self._image.quotas, ops)
        except RefusedQuota as refused:
            return quotas.refuse("", refused)
        if after == self._image.quotas.get(entity, {}):
            return Decision(str(entity))
        return quotas.decide(entity, after, self._image.user_configs, may_go)


def _without_repetitions(wanted: Sequence[Wanted]) -> list[Wanted]:
    """Return `wanted` with all but the first occurrence of each entity refused."""
    seen: set[QuotaEntity] = set()
    once: list[Wanted] = []
    for entity, ops in wanted:
        if isinstance(entity, QuotaEntity) and entity in seen:
            once.append((RefusedQuota(f"Ignoring duplicate entity {entity}: name it once."), ops))
            continue
        if isinstance(entity, QuotaEntity):
            seen.add(entity)
        once.append((entity, ops))
    return once
