"""The cluster's feature levels: stored in the registry and effective at once.

Independent of requests and of the levels' meaning.
"""

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
    """The finalized feature levels of the cluster. The callbacks in `told` are called after each change."""

    def __init__(self, image: ClusterImage, commits: Commits) -> None:
        self.told: list[Callable[[], None]] = []
        self._image = image
        self._commits = commits

    def level(self, feature: Feature) -> int:
        """Return the finalized level; `OFF` if there is none."""
        return self._image.features.get(feature.name, OFF)

    @property
    def epoch(self) -> int:
        """Return the epoch, which increases with each change; 0 before the first change."""
        return self._image.features_epoch

    def update(self, offered: Mapping[str, Feature], updates: Sequence[FeatureUpdate], *, validate_only: bool) -> Steps[Decision]:
        """Change the levels of the `offered` features, all of them or none. The steps must run to their end."""

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
