"""The effect of a share consumer's `on_bad_record`: a record that cannot be read is released and raised, or rejected."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from ottla.client.errors import DeserializationFailed, KafkaError
from ottla.client.settings.clients import RAISE, ShareConsumerSettings
from ottla.client.share.acknowledgements import AcknowledgeType
from ottla.client.share.deliveries import ShareDelivery
from ottla.net.client.share.share_fetch_driver import ShareFetchDriver

log = logging.getLogger("ottla.client")


class ShareBadRecords:
    """The records of one share consumer that its deserializers cannot read."""

    def __init__(self, settings: ShareConsumerSettings, reader: ShareFetchDriver) -> None:
        self._raises = settings.on_bad_record == RAISE
        self._group_id = settings.group_id
        self._reader = reader

    def are_raised(self, topic: str) -> bool:
        """Return whether bad records raise."""
        return self._raises

    async def pass_over(self, error: KafkaError) -> None:
        """Release or reject the record of `error`, and continue after it. Raises the error unless bad records are skipped."""
        if not isinstance(error, DeserializationFailed):
            raise error
        delivery = self._acknowledge(error)
        if delivery is not None:
            delivery.cursor.pass_over()
        if self._raises:
            raise error.of_share_group() from error.__cause__
        await asyncio.sleep(0)  # a run of bad records leaves time to heartbeats and fetches

    def explain(self, error: DeserializationFailed) -> DeserializationFailed:
        """Return the error to raise for a record, after the record was released."""
        delivery = self._acknowledge(error)
        if delivery is not None:
            delivery.cursor.pass_over()
        return error.of_share_group()

    async def pass_over_all(self, errors: Sequence[DeserializationFailed]) -> None:
        """Reject the records of `errors`. The caller moves the position."""
        for error in errors:
            self._acknowledge(error)

    def _acknowledge(self, error: DeserializationFailed) -> ShareDelivery | None:
        """Acknowledge a bad record, and return its delivery."""
        if not self._raises:
            log.warning("group %s: a record was rejected: %s", self._group_id, error)
        for delivery in self._reader.deliveries:
            where = delivery.source.where
            if (where.topic, where.partition) == (error.topic, error.partition) and delivery.first <= error.offset <= delivery.last:
                delivery.decide(error.offset, AcknowledgeType.RELEASE if self._raises else AcknowledgeType.REJECT)
                return delivery
        return None
