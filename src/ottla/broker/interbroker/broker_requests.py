"""Requests to another broker in the version that all brokers of the cluster support, with responses for jobs.

Contains the choice of version, and neither lanes nor addresses: `channels` has them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from ottla.broker.interbroker.channels import Channels
from ottla.broker.settings import SettingsInForce
from ottla.ports import Done, Steps
from ottla.wire.api.add_partitions_to_txn import AddPartitionsToTxnRequest
from ottla.wire.api.create_topics import CreateTopicsRequest
from ottla.wire.schema import Message

CREATE_TOPICS_VERSION: Final = 4
"""The version of CreateTopics requests, as in Kafka 2.4. The broker sets every number in these requests itself."""

ADD_PARTITIONS_SINCE: Final = (("3.8-IV0", 5), ("3.5-IV0", 4))
"""(inter-broker protocol version, version of AddPartitionsToTxn from then on), newest first. Older versions do not send it."""

UNSPOKEN: Final = -1


class BrokerRequester:
    """A sender of requests to another broker, or to this one, with `request.timeout.ms` as the timeout."""

    def __init__(self, channels: Channels, settings: SettingsInForce) -> None:
        self._channels = channels
        self._settings = settings

    def version(self, request: type[Message]) -> int:
        """Return the version in which brokers of this cluster send a request to each other; `UNSPOKEN` if they do not send it."""
        spoken = self._settings.value.inter_broker_protocol_version
        if request is CreateTopicsRequest:
            return CREATE_TOPICS_VERSION
        if request is AddPartitionsToTxnRequest:
            return next((version for since, version in ADD_PARTITIONS_SINCE if spoken.is_at_least(since)), UNSPOKEN)
        return spoken.version(request)

    def request(self, node_id: int, message: Message, answered: Callable[[Any], None], *, lane: str) -> None:
        """Send a request, and call `answered` later with the response, or with None if the outcome is unknown."""
        timeout_ms = self._settings.value.request_timeout_ms
        self._channels.request(node_id, message, self.version(type(message)), answered, lane=lane, timeout_ms=timeout_ms)

    def answer(self, node_id: int, message: Message, *, lane: str) -> Steps[Any]:
        """Send a request to another broker, and return its response. Return None if no response arrives."""
        answers: list[Any] = []

        def start(done: Done) -> None:
            self.request(node_id, message, partial(_note, answers, done), lane=lane)

        yield start
        return answers[0]


def _note(answers: list[Any], done: Done, response: Any) -> None:
    answers.append(response)
    done(None)
