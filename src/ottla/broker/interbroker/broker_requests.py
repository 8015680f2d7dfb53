"""Asks another broker something in the version that all brokers of the cluster speak, and lets jobs wait for the answer.

Knows which version that is, and no lane or address: `channels` does.
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
"""That of Kafka 2.4, for requests of a broker that give all numbers themselves."""

ADD_PARTITIONS_SINCE: Final = (("3.8-IV0", 5), ("3.5-IV0", 4))
"""Which version of AddPartitionsToTxn brokers ask each other by, since which protocol version: before, they do not."""

UNSPOKEN: Final = -1


class BrokerAsker:
    """Requests of this broker to another one, or to itself, each with a time within which it is answered."""

    def __init__(self, channels: Channels, settings: SettingsInForce) -> None:
        self._channels = channels
        self._settings = settings

    def version(self, request: type[Message]) -> int:
        """In which version brokers of this cluster send a request to each other; `UNSPOKEN` if they do not."""
        spoken = self._settings.value.inter_broker_protocol_version
        if request is CreateTopicsRequest:
            return CREATE_TOPICS_VERSION
        if request is AddPartitionsToTxnRequest:
            return next((version for since, version in ADD_PARTITIONS_SINCE if spoken.is_at_least(since)), UNSPOKEN)
        return spoken.version(request)

    def ask(self, node_id: int, message: Message, answered: Callable[[Any], None], *, lane: str) -> None:
        """Call `answered` with the response, later; with None if nothing is known of what became of the request."""
        timeout_ms = self._settings.value.request_timeout_ms
        self._channels.ask(node_id, message, self.version(type(message)), answered, lane=lane, timeout_ms=timeout_ms)

    def answer(self, node_id: int, message: Message, *, lane: str) -> Steps[Any]:
        """The response, or None, in the midst of a job."""
        answers: list[Any] = []

        def start(done: Done) -> None:
            self.ask(node_id, message, partial(_note, answers, done), lane=lane)

        yield start
        return answers[0]


def _note(answers: list[Any], done: Done, response: Any) -> None:
    answers.append(response)
    done(None)
