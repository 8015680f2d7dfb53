"""Quotas changed while the broker runs: kept in the registry, in force at once. Knows no requests."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ottla.broker.scheduler import Steps
from ottla.broker.topics.commits import Commits
from ottla.cluster import quotas
from ottla.cluster.decision import Decision
from ottla.cluster.image import ClusterImage
from ottla.cluster.quotas import QuotaEntity, RefusedQuota

Op = tuple[str, float | None]
"""A quota by its key, and what it is to be; None removes it."""

Wanted = tuple[QuotaEntity | RefusedQuota, list[Op]]
"""What is to be changed for an entity, or why there is no such entity."""


class QuotaChanges:
    """Alters quotas; `changed` is called when any were."""

    def __init__(self, image: ClusterImage, commits: Commits, changed: Callable[[], None]) -> None:
        self._image = image
        self._commits = commits
        self._changed = changed

    def alter(self, wanted: Sequence[Wanted], *, validate_only: bool) -> Steps[list[Decision]]:
        """Change the quotas of entities, each with a decision of its own. The steps must be taken to their end."""

        def decide() -> list[Decision]:
            return [self._decision(wanted, number) for number in range(len(wanted))]

        if validate_only:
            return decide()
        decisions = yield from self._commits.commit_slowly(decide)
        if any(decision.is_made for decision in decisions):
            self._changed()
        return decisions

    def _decision(self, wanted: Sequence[Wanted], number: int) -> Decision:
        entity, ops = wanted[number]
        try:
            if isinstance(entity, RefusedQuota):
                raise entity
            if any(other == entity for other, _ in wanted[:number]):
                raise RefusedQuota(f"Ignoring duplicate entity {entity}: name it once.")
            after = quotas.altered(entity, self._image.quotas, ops)
        except RefusedQuota as refused:
            return quotas.refused("", refused)
        if after == self._image.quotas.get(entity, {}):
            return Decision(str(entity))
        return quotas.decide(entity, after, self._image.user_configs)
