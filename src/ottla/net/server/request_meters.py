"""The durations of requests by API, version and stage, and the log of slow requests.

The stages are Kafka's: `queue` from the last read of the request until it is served; `local` the work on the broker's thread until
it is answered or delayed; `remote` the wait for data, members or other brokers; `sync` the wait for stable storage, in a cluster
also for the in-sync replicas; `send` until the socket took the reply. One write sends the replies of many pipelined requests, and
counts once, for the API of the last one.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from ottla.broker.serving.request import Peer
from ottla.net.kernel_meter import LOCAL, QUEUE, REMOTE, SEND, SYNC, TOTAL, StageHistograms
from ottla.ports import Buffer
from ottla.wire import Malformed
from ottla.wire.apis import API
from ottla.wire.framing import decode_client_id

log = logging.getLogger("ottla.net")

STAGES: Final = {"queue": QUEUE, "local": LOCAL, "remote": REMOTE, "sync": SYNC, "send": SEND, "total": TOTAL}
MOST_LINES: Final = 10
"""Lines about slow requests in a second."""
HEAD_BYTES: Final = 300
"""The bytes of a request that are kept for the log while its reply is delayed: the header with most client ids."""
MS: Final = 1_000_000
OTHER: Final = "other"


class RequestMeter(StageHistograms):
    """The durations of the requests of one API in one version."""

    __slots__ = ("api", "version")

    def __init__(self, api: str, version: int) -> None:
        super().__init__(len(STAGES))
        self.api = api
        self.version = version


class RequestMeters:
    """The meters of all APIs. `rows[key][version]` is the meter of an API's version, or None before its first request.

    `slow_ns` is the duration above which a request is logged; None for no log.
    """

    def __init__(self) -> None:
        self.rows: list[list[RequestMeter | None]] = [[] for _ in range(max(API) + 1)]
        self.slow_ns: int | None = None
        self._other = RequestMeter(OTHER, 0)
        """The meter of requests that no broker serves, so that a client's numbers take no memory."""

    def find(self, frame: Buffer) -> RequestMeter:
        """Return the meter of a request, a new one for the first request of an API and version that exist."""
        if len(frame) < 4 or frame[0] or frame[2] or frame[1] not in API or frame[3] not in API[frame[1]].versions:
            return self._other
        key, version = frame[1], frame[3]
        row = self.rows[key]
        row.extend([None] * (version + 1 - len(row)))
        found = row[version]
        if found is None:
            found = row[version] = RequestMeter(API[key].name, version)
        return found

    @property
    def used(self) -> list[RequestMeter]:
        """Return the meters that have counted any request."""
        found = [meter for row in self.rows for meter in row if meter is not None]
        return [*found, self._other] if any(self._other.cells) else found

    def log_slow(self, meter: RequestMeter, head: Buffer, peer: Peer, stages_ns: Sequence[int]) -> None:
        """Log a request with the durations of its stages: queue, local, remote, sync."""
        queue, local, remote, sync = (duration / MS for duration in stages_ns)
        sentence = (
            "slow request: %s version %d of client %r, %s as %s, took %.1f ms: queue %.1f, local %.1f, remote %.1f, sync %.1f"
        )
        arguments = (meter.api, meter.version, _client_id(meter, head), peer, peer.principal, sum(stages_ns) / MS)
        log.warning(sentence, *arguments, queue, local, remote, sync, extra={"cause": "slow request", "most": MOST_LINES})


def _client_id(meter: RequestMeter, head: Buffer) -> str:
    """Return the client id in the first bytes of a request, or an empty text if it is not readable."""
    if meter.api == OTHER:
        return ""
    try:
        return decode_client_id(head, 1)[0] or ""
    except Malformed:
        return ""
