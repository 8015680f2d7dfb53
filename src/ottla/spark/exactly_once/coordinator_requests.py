"""The requests of the machines of `ottla.once` to transaction coordinators, with retries. All use one cluster's connections."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from typing import Final

from ottla.client.admin.topics import ConfigResource, describe_configs_request, read_configs
from ottla.client.connection.versions import DESCRIBE_TRANSACTIONS, INIT_PRODUCER_ID, LIST_TRANSACTIONS
from ottla.client.errors import KafkaError, NotSupported
from ottla.client.producer.transactions import EXPLICIT_END_TXN, IMPLICIT_FROM, TRANSACTION_VERSION
from ottla.net.client.admin import transactions as transaction_admin
from ottla.net.client.cluster import ClusterLinks
from ottla.net.client.coordinator import TRANSACTION, Coordinator
from ottla.once.decisions import Handed
from ottla.once.steps import SeenId
from ottla.wire import errors as codes
from ottla.wire.api.describe_transactions import DescribeTransactionsRequest
from ottla.wire.api.end_txn import EndTxnRequest
from ottla.wire.api.init_producer_id import InitProducerIdRequest

REFUSED: Final = frozenset(
    {
        codes.PRODUCER_FENCED,
        codes.INVALID_PRODUCER_EPOCH,
        codes.INVALID_PRODUCER_ID_MAPPING,
        codes.INVALID_TXN_STATE,
        codes.TRANSACTIONAL_ID_NOT_FOUND,
    }
)
"""Errors of EndTxn that mean: another process has ended the transaction, or the coordinator does not have it."""
NO_TWO_PHASES: Final = frozenset({codes.UNSUPPORTED_VERSION, codes.TRANSACTIONAL_ID_AUTHORIZATION_FAILED})
"""Errors that mean: brokers do not allow two-phase commit, or not to this user."""
TWO_PHASE_FROM: Final = 6
"""The version of InitProducerId from which two-phase commit is available (KIP-939)."""
MAX_TIMEOUT_SETTING: Final = "transaction.max.timeout.ms"
USUAL_MAX_TIMEOUT_MS: Final = 900_000


class HandedCoordinators:
    """Requests about many transactional ids to their coordinators, each of which is looked up once. Use only on one event loop."""

    def __init__(self, cluster: ClusterLinks) -> None:
        self._cluster = cluster
        self._known: dict[str, Coordinator] = {}
        self._max_timeout_ms: int | None = None

    def _of(self, transactional_id: str) -> Coordinator:
        found = self._known.get(transactional_id)
        if found is None:
            found = self._known[transactional_id] = Coordinator(self._cluster, transactional_id, TRANSACTION)
        return found

    def forget(self, transactional_ids: Iterable[str]) -> None:
        """Forget the coordinators of transactional ids that are not needed any more."""
        for each in transactional_ids:
            self._known.pop(each, None)

    async def check_describable(self, transactional_id: str) -> None:
        """Check that the brokers can describe transactions.

        Raises `NotSupported` before Kafka 3.0, which has no DescribeTransactions. It would be unknown which transactions of a batch
        are open or committed. Raises other `KafkaError`s.
        """
        link = await self._cluster.retry(self._of(transactional_id).link)
        if min(link.version(DESCRIBE_TRANSACTIONS), link.version(LIST_TRANSACTIONS)) < 0:
            raise NotSupported(
                "Brokers before Kafka 3.0 cannot describe transactions (KIP-664), so nothing is written exactly "
                'once with them: give option deliveryGuarantee "at-least-once", or use newer brokers.'
            )

    async def describe(self, transactional_ids: Iterable[str]) -> list[SeenId | None]:
        """Return the descriptions of transactional ids; None for an unknown id.

        Raises `NotSupported` before Kafka 3.0, or another `KafkaError`.
        """
        return list(await asyncio.gather(*(self._cluster.retry(partial(self._describe_one, each)) for each in transactional_ids)))

    async def _describe_one(self, name: str) -> SeenId | None:
        coordinator = self._of(name)
        answer = await coordinator.request(DescribeTransactionsRequest(transactional_ids=[name]))
        (seen,) = answer.transaction_states
        if seen.error_code == codes.TRANSACTIONAL_ID_NOT_FOUND:
            return None
        coordinator.check(seen.error_code, f"Transactional id {name}")
        started_ms = seen.transaction_start_time_ms
        return SeenId(
            seen.transaction_state,
            seen.producer_id,
            seen.producer_epoch,
            seen.transaction_timeout_ms,
            started_ms if started_ms > 0 else None,
        )

    async def prepare(self, transactions: Iterable[Handed]) -> list[Handed | None]:
        """Prepare transactions for the commit (KIP-939), which removes their timeouts, and return each with the id of its end.

        A transaction is returned unchanged if brokers refuse. The result is None for a transaction that is not open. Raises
        `KafkaError`.
        """
        return list(await asyncio.gather(*(self._cluster.retry(partial(self._prepare_one, each)) for each in transactions)))

    async def _prepare_one(self, handed: Handed) -> Handed | None:
        coordinator = self._of(handed.transactional_id)
        if (await coordinator.link()).version(INIT_PRODUCER_ID) < TWO_PHASE_FROM:
            return handed
        # The request has the transaction's own epoch, so that a repeated request gets the same answer.
        request = InitProducerIdRequest(
            transactional_id=handed.transactional_id,
            transaction_timeout_ms=USUAL_MAX_TIMEOUT_MS,
            producer_id=handed.producer_id,
            producer_epoch=handed.producer_epoch,
            enable_2pc=True,
            keep_prepared_txn=True,
        )
        answer = await coordinator.request(request)
        if answer.error_code in NO_TWO_PHASES:
            return handed
        if answer.error_code in REFUSED:
            return None
        coordinator.check(answer.error_code, f"Preparing the transaction of {handed.transactional_id}")
        kept = (answer.ongoing_txn_producer_id, answer.ongoing_txn_producer_epoch)
        if kept != (handed.producer_id, handed.producer_epoch):
            return None
        return handed._replace(prepared=(answer.producer_id, answer.producer_epoch))

    async def end(self, transactions: Iterable[Handed], *, committed: bool) -> list[bool]:
        """Commit or abort transactions. Return for each whether it ended as requested; False means that the coordinator refused.

        Raises other `KafkaError`s, after all requests are done.
        """
        asked = (self._cluster.retry(partial(self._ended, each, committed)) for each in transactions)
        answers = await asyncio.gather(*asked, return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
        return [answer is True for answer in answers]

    async def _ended(self, handed: Handed, committed: bool) -> bool:
        coordinator = self._of(handed.transactional_id)
        link = await coordinator.link()
        most = None if link.feature(TRANSACTION_VERSION) >= IMPLICIT_FROM else EXPLICIT_END_TXN
        producer_id, producer_epoch = handed.ends_as
        request = EndTxnRequest(
            transactional_id=handed.transactional_id,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            committed=committed,
        )
        answer = await coordinator.request(request, most)
        if answer.error_code in REFUSED:
            return False
        coordinator.check(answer.error_code, f"Ending the transaction of {handed.transactional_id}")
        return True

    async def open_ids(self, prefix: str) -> list[str]:
        """Return the transactional ids with this prefix that have an open transaction. Raises `KafkaError`."""
        found = await transaction_admin.list_transactions(self._cluster, ["Ongoing"])
        return [each.transactional_id for each in found if each.transactional_id.startswith(prefix)]

    async def fence(self, transactional_id: str) -> None:
        """Abort the open transaction of an id, and fence its producer. Raises `KafkaError`."""
        await transaction_admin.fence_producer(self._cluster, transactional_id)

    async def max_timeout_ms(self) -> int:
        """Return the longest transaction timeout that the brokers allow, or Kafka's default if they do not say."""
        if self._max_timeout_ms is None:
            self._max_timeout_ms = USUAL_MAX_TIMEOUT_MS
            with suppress(KafkaError, KeyError, ValueError):
                self._max_timeout_ms = await self._cluster.retry(self._query_max_timeout_ms)
        return self._max_timeout_ms

    async def _query_max_timeout_ms(self) -> int:
        await self._cluster.refresh([])
        node_id = min(self._cluster.metadata.nodes)
        request = describe_configs_request(ConfigResource.broker(node_id))
        return int(read_configs(await self._cluster.request(node_id, request))[MAX_TIMEOUT_SETTING].value or "")
