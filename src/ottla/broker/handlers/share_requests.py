"""The common parts of ShareFetch and ShareAcknowledge: checks of group and member, acknowledgements, ends of sessions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol

from ottla.broker.handlers.share_fetch_reading import ShareContext
from ottla.broker.serving.parts import Budget
from ottla.broker.share.acknowledgements import DECIDED_AT_ONCE, AcknowledgementBatch, RecordAcknowledgements
from ottla.cluster.features import OFF, SHARE_VERSION
from ottla.ports import Now, Steps
from ottla.share.sessions import PlaceKey, ShareSession
from ottla.wire.errors import ERRORS, INVALID_REQUEST, UNSUPPORTED_VERSION

FIRST_VERSION: Final = 1
"""Version 0 was a draft."""
LONGEST_MEMBER_ID: Final = 36
"""The most characters of a member id: those of a UUID."""
MOST_ITEMS: Final = 100_000
"""Topics, partitions, ranges of offsets and acknowledge types in one request."""
MOST_BYTES: Final = 1 << 20
"""Upper limit of a request, in bytes."""
NO_GROUP_ID: Final = "Invalid group id in the request."
NO_MEMBER_ID: Final = "Invalid member id in the request."

RequestFault = tuple[int, str]
"""(error code, error message)"""


class AcknowledgedPartition(Protocol):
    """A partition of a request with acknowledgements."""

    @property
    def partition_index(self) -> int: ...

    @property
    def acknowledgement_batches(self) -> Sequence[AcknowledgementBatch]: ...


class AcknowledgedTopic(Protocol):
    """A topic of a request with acknowledgements."""

    @property
    def topic_id(self) -> bytes: ...

    @property
    def partitions(self) -> Sequence[AcknowledgedPartition]: ...


def request_fault(context: ShareContext, group_id: str | None, member_id: str | None) -> RequestFault | None:
    """Return why a request is refused before its session is looked at; None if it is not."""
    if context.cluster.features.get(SHARE_VERSION.name, OFF) == OFF:
        return UNSUPPORTED_VERSION, ERRORS[UNSUPPORTED_VERSION].sentence
    if group_id is None:
        return INVALID_REQUEST, NO_GROUP_ID
    if not member_id or len(member_id) > LONGEST_MEMBER_ID:
        return INVALID_REQUEST, NO_MEMBER_ID
    return None


def batches_by_partition(topics: Iterable[AcknowledgedTopic]) -> dict[PlaceKey, Sequence[AcknowledgementBatch]]:
    """Return the ranges of each partition of a request. Of a partition that is named twice, the last ranges count, as in Kafka."""
    return {(topic.topic_id, part.partition_index): part.acknowledgement_batches for topic in topics for part in topic.partitions}


def acknowledge(
    acknowledgements: RecordAcknowledgements, named: Mapping[PlaceKey, Sequence[AcknowledgementBatch]], now: Now
) -> Steps[None]:
    """Decide the acknowledgements of all partitions, with pauses if there are many, and store them."""
    budget = Budget(DECIDED_AT_ONCE)
    for (topic_id, index), batches in named.items():
        yield from acknowledgements.add(topic_id, index, batches, now)
        yield from budget.spend(sum(len(batch.acknowledge_types) + 1 for batch in batches) + 1)
    acknowledgements.store()


def end_session(context: ShareContext, session: ShareSession) -> None:
    """End a session, and release the records that its member holds. A fetch that waits in the session gets its response."""
    if not session.is_over:
        context.sessions.end(session)
        context.purgatory.wake(session.key)
        context.shares.release([session])
