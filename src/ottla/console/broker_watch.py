"""The state of each broker, asked once a second while pages are viewed, so that a dead broker is shown soon.

A broker that the cluster no longer lists is kept: metadata drops a dead one, and a person wants to see which it was.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from ottla.client.admin.cluster import ClusterDescription
from ottla.client.admin.results import Results
from ottla.errors import KafkaError
from ottla.net.client.admin.async_admin import AsyncAdmin
from ottla.wire.releases import release_like

ANSWER_MS = 1_000
"""The time, in ms, for which a broker may be silent."""
SILENT = "No broker answers."
MOST_GONE = 50
"""The number of brokers that are remembered after the cluster has dropped them."""


@dataclass(frozen=True, slots=True)
class BrokerState:
    """A broker. `since_ms` is when it began to answer or to be silent, in ms since 1970. `trouble` says why it does not answer."""

    node_id: int
    address: str
    rack: str | None
    answers: bool
    since_ms: int
    release: str = ""
    trouble: str = ""


class BrokerWatch:
    """The brokers of a cluster by node id. `on_change` is called when one begins or ceases to answer."""

    def __init__(self, on_change: Callable[[], None]) -> None:
        self.brokers: dict[int, BrokerState] = {}
        self.controller_id = -1
        self.cluster_id: str | None = None
        self.trouble = ""
        """The sentence about a cluster of which no broker answers; empty if one does."""
        self._on_change = on_change
        self._versions: dict[int, dict[int, int]] = {}

    async def check(self, admin: AsyncAdmin) -> None:
        """Query all brokers: the cluster's list, and each broker that is known, at the same time.

        The broker that is asked for the list can be the one that does not answer; the others are not silent for that.
        """
        described, found = await asyncio.gather(self._describe(admin), self._read_versions(admin, list(self.brokers)))
        if isinstance(described, str):
            self._record_unlisted(found, described)
            return
        before, was = self.trouble, self.controller_id
        self.trouble, self.cluster_id, self.controller_id = "", described.cluster_id, described.controller_id
        ids = [node.node_id for node in described.nodes]
        fresh = await self._read_versions(admin, [node_id for node_id in ids if node_id not in self.brokers])
        answers, errors = {**found, **fresh}, {**found.errors, **fresh.errors}
        changed = bool(before) or was != self.controller_id
        for node in described.nodes:
            trouble = "" if node.node_id in answers else str(errors.get(node.node_id, SILENT))
            state = BrokerState(node.node_id, f"{node.host}:{node.port}", node.rack, not trouble, now_ms(), trouble=trouble)
            changed = self._record(self._with_release(state, answers)) or changed
        for node_id, known in list(self.brokers.items()):
            if node_id not in ids:
                gone = replace(known, answers=False, since_ms=now_ms(), trouble="The cluster does not list it any more.")
                changed = self._record(gone) or changed
        if changed:
            self._on_change()

    async def _describe(self, admin: AsyncAdmin) -> ClusterDescription | str:
        """Return the cluster's brokers, or a sentence if no broker lists them in time."""
        try:
            async with asyncio.timeout(ANSWER_MS / 1000):
                return await admin.describe_cluster()
        except (KafkaError, TimeoutError) as error:
            return str(error) or SILENT

    async def _read_versions(self, admin: AsyncAdmin, node_ids: list[int]) -> Results[int, dict[int, int]]:
        """Return the versions of APIs of brokers that answer, and the errors of the others."""
        if not node_ids:
            return Results()
        try:
            return await admin.describe_api_versions(node_ids, check=False, timeout_ms=ANSWER_MS)
        except KafkaError as error:
            return Results({}, dict.fromkeys(node_ids, error))

    def _record_unlisted(self, found: Results[int, dict[int, int]], sentence: str) -> None:
        """Record which of the known brokers answer, after no broker has listed the cluster in time."""
        if not found:
            self._record_silence(sentence)
            return
        changed, self.trouble = bool(self.trouble), ""
        for node_id, known in list(self.brokers.items()):
            trouble = "" if node_id in found else str(found.errors.get(node_id, SILENT))
            state = replace(known, answers=not trouble, since_ms=now_ms(), trouble=trouble)
            changed = self._record(self._with_release(state, found)) or changed
        if changed:
            self._on_change()

    def _with_release(self, state: BrokerState, answers: Mapping[int, dict[int, int]]) -> BrokerState:
        return replace(state, release=self._release(state.node_id, answers[state.node_id])) if state.answers else state

    def _record_silence(self, sentence: str) -> None:
        is_new = not self.trouble
        self.trouble = sentence
        for known in list(self.brokers.values()):
            self._record(replace(known, answers=False, since_ms=now_ms(), trouble=sentence))
        if is_new:
            self._on_change()

    def _record(self, state: BrokerState) -> bool:
        """Record a state, and return whether the broker began or ceased to answer."""
        known = self.brokers.get(state.node_id)
        is_change = known is None or known.answers != state.answers
        if known is not None and not is_change:
            state = replace(state, since_ms=known.since_ms)
        self.brokers[state.node_id] = state
        if len(self.brokers) > MOST_GONE:
            gone = [each for each in self.brokers.values() if not each.answers]
            if gone:
                del self.brokers[min(gone, key=lambda each: each.since_ms).node_id]
        return is_change

    def _release(self, node_id: int, versions: dict[int, int]) -> str:
        if self._versions.get(node_id) == versions and node_id in self.brokers and self.brokers[node_id].release:
            return self.brokers[node_id].release
        self._versions[node_id] = versions
        return release_like(versions) or ""


def now_ms() -> int:
    """Return the time in ms since 1970."""
    return time.time_ns() // 1_000_000
