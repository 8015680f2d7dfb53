"""A broker's controlled shutdown: it requests that the controller moves leadership away, and retries as configured.

Depends on the channel to the controller, and decides nothing about partitions.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from ottla.broker.interbroker.channels import Channels
from ottla.broker.scheduler import Scheduler
from ottla.broker.settings import SettingsInForce
from ottla.cluster.image import ClusterImage
from ottla.ports import Done, Steps
from ottla.wire.api.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse
from ottla.wire.errors import ERRORS

log = logging.getLogger("ottla.broker")

LANE = "leaving"


class HandOver:
    """The controlled shutdown of this broker, as a client of the controller. `broker_epoch` returns this broker's epoch."""

    def __init__(
        self,
        node_id: int,
        broker_epoch: Callable[[], int],
        channels: Channels,
        image: ClusterImage,
        settings: SettingsInForce,
        scheduler: Scheduler,
    ) -> None:
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._channels = channels
        self._image = image
        self._settings = settings
        self._scheduler = scheduler

    def begin(self, over: Callable[[], None]) -> None:
        """Send ControlledShutdown requests.

        Call `over` when no other broker can lead the remaining partitions, or all retries are used.
        """
        self._scheduler.begin(self, self._transfer(), lambda _: over(), lambda failure: over(), urgent=True)

    def _transfer(self) -> Steps[None]:
        settings = self._settings.value
        if not settings.controlled_shutdown_enable:
            return
        why = ""
        for asked in range(settings.controlled_shutdown_max_retries + 1):
            if asked:
                log.info("the controlled shutdown is retried: %s", why)
                yield self._scheduler.rest(settings.controlled_shutdown_retry_backoff_ms)
            if not self._image.brokers.keys() - {self._node_id}:  # no other broker could lead
                return
            response = yield from self._request(self._image.controller_id)
            if response is None:
                why = "it did not answer"
            elif response.error_code:
                why = ERRORS[response.error_code].name
            elif response.remaining_partitions:
                why = f"no other broker is in sync for {len(response.remaining_partitions)} partitions"
            else:
                return
        log.warning("this broker stops without having handed over all that it leads: %s", why)

    def _request(self, controller_id: int) -> Steps[ControlledShutdownResponse | None]:
        answers = list[ControlledShutdownResponse | None]()
        request = ControlledShutdownRequest(broker_id=self._node_id, broker_epoch=self._broker_epoch())
        settings = self._settings.value
        version = settings.inter_broker_protocol_version.version(ControlledShutdownRequest)

        def start(done: Done) -> None:
            heard = partial(_note, answers, done)
            timeout_ms = settings.controller_socket_timeout_ms
            self._channels.request(controller_id, request, version, heard, lane=LANE, timeout_ms=timeout_ms)

        yield start
        return answers[0]


def _note(answers: list[ControlledShutdownResponse | None], done: Done, response: ControlledShutdownResponse | None) -> None:
    answers.append(response)
    done(None)
