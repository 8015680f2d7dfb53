"""Transactions are not served yet: a refusal that makes clients give up at once, instead of retrying until they time out."""

from __future__ import annotations

import logging
from typing import Final

from ottla.broker.serving.request import Request
from ottla.wire.api.find_coordinator import FindCoordinatorRequest
from ottla.wire.api.init_producer_id import InitProducerIdRequest
from ottla.wire.errors import TRANSACTIONAL_ID_AUTHORIZATION_FAILED

log = logging.getLogger("ottla.broker")

SENTENCE: Final = "This broker does not serve transactions yet: produce without a transactional id."


class NoTransactions:
    """Refuses transactional ids, and logs the first refusal."""

    def __init__(self) -> None:
        self._said = False

    def refuse(self, request: Request[InitProducerIdRequest] | Request[FindCoordinatorRequest]) -> int:
        """The error code of the refusal: the one on which every client gives up, librdkafka too."""
        if not self._said:
            log.warning("A client (%s, %s) asks for a transaction. %s", request.client_id, request.peer, SENTENCE)
            self._said = True
        return TRANSACTIONAL_ID_AUTHORIZATION_FAILED
