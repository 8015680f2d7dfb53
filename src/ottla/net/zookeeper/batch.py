"""Pipelined requests to ZooKeeper, as steps that the broker's scheduler runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ottla.net.zookeeper.handler import ZooKeeperAnswer
from ottla.ports import Done, Steps

AT_ONCE = 64
"""The number of requests that are sent without a pause for other work."""

UNDER_WAY = 512
"""The limit on unanswered requests."""

Ask = Callable[[], ZooKeeperAnswer]


class RequestBatch:
    """Some requests, with a callback that resumes when few enough of them are unanswered."""

    def __init__(self, asks: Sequence[Ask]) -> None:
        self._asks = asks
        self._under_way = 0
        self._enough = 0
        self._done: Done | None = None

    def steps(self) -> Steps[list[ZooKeeperAnswer]]:
        """Send all requests. Return their answers, including errors, in the order of the requests."""
        answers: list[ZooKeeperAnswer] = []
        for start in range(0, len(self._asks), AT_ONCE):
            if start:
                yield None
            while self._under_way > UNDER_WAY - AT_ONCE:
                yield self._until(UNDER_WAY // 2)
            for ask in self._asks[start : start + AT_ONCE]:
                answer = ask()
                answer.told = self._told
                self._under_way += 1
                answers.append(answer)
        while self._under_way:
            yield self._until(0)
        return answers

    def _until(self, under_way: int) -> Callable[[Done], None]:
        def start(done: Done) -> None:
            self._enough, self._done = under_way, done

        return start

    def _told(self, answer: ZooKeeperAnswer) -> None:
        self._under_way -= 1
        if self._done is not None and self._under_way <= self._enough:
            done, self._done = self._done, None
            done(None)
