"""The levels of the cluster's features: kept in the registry, in force at once. Knows no requests, and what no level means."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

from ottla.broker.topics.commits import Commits
from ottla.cluster import features
from ottla.cluster.decision import Decision
from ottla.cluster.features import OFF, Feature, FeatureUpdate
from ottla.cluster.image import ClusterImage
from ottla.ports import Steps

log = logging.getLogger("ottla.broker")


class Features:
    """Tells levels and changes them. `told` are called after each change, for rooms that keep something made of them."""

    def __init__(self, epoch: Callable[[], int], image: ClusterImage, commits: Commits) -> None:
        """`epoch` tells how often they have been changed, 0 before the first time."""
        self.told: list[Callable[[], None]] = []
        self._epoch = epoch
        self._image = image
        self._commits = commits

    def level(self, feature: Feature) -> int:
        """The level in force; `OFF` for none."""
        return self._image.features.get(feature.name, OFF)

    @property
    def epoch(self) -> int:
        """Grows with each change; 0 before the first."""
        return self._epoch()

    def update(self, offered: Mapping[str, Feature], updates: Sequence[FeatureUpdate], *, validate_only: bool) -> Steps[Decision]:
        """Let the features `offered` have these levels, all of them or none. The steps must be taken to their end."""

        def decide() -> list[Decision]:
            return [features.update(self._image.features, offered, updates)]

        if validate_only:
            return decide()[0]
        (decision,) = yield from self._commits.commit_slowly(decide)
        if decision.is_made:
            log.info("the levels of features are %s", ", ".join(f"{name}={level}" for name, level in self._image.features.items()))
            for tell in self.told:
                tell()
        return decision
