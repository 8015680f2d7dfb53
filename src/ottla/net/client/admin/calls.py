"""What all calls of an admin client share: its settings, its connections, and requests to the controller or to any broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ottla.client.errors import BrokerError, KafkaError
from ottla.client.settings.clients import AdminSettings
from ottla.net.client.cluster import ClusterLinks
from ottla.wire.errors import NOT_CONTROLLER
from ottla.wire.schema import Message

Response = TypeVar("Response", bound=Message)
Result = TypeVar("Result")


class AdminCalls:
    """The base of the parts of `AsyncAdmin`."""

    _settings: AdminSettings
    _cluster: ClusterLinks

    async def _change(self, body: Message, read: Callable[[Response], Result]) -> Result:
        """Send a change to the controller, and after NOT_CONTROLLER to the next controller, for up to `default_api_timeout_ms`.

        Return the result of `read` for the answer. A change whose answer was lost is not repeated: it may have been applied.
        """

        async def change() -> Result | KafkaError:
            link = await self._cluster.controller()
            try:
                return read(await link.request(body, self._settings.request_timeout_ms))
            except KafkaError as error:
                if isinstance(error, BrokerError) and error.code == NOT_CONTROLLER:
                    raise
                return error

        done = await self._cluster.retry(change)
        if isinstance(done, KafkaError):
            raise done
        return done

    async def _request_any(self, body: Message, read: Callable[[Response], Result], node_id: int | None = None) -> Result:
        """Return the result of `read` for the answer of a broker (None: of any), with retries."""

        async def attempt() -> Result:
            answer = await (self._cluster.request_any(body) if node_id is None else self._cluster.request(node_id, body))
            return read(answer)

        return await self._cluster.retry(attempt)

    async def _refresh(self) -> None:
        """Request the brokers and the controller of the cluster, with retries."""
        await self._cluster.retry(lambda: self._cluster.refresh([]))
