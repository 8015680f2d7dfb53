"""Replies that take long to compute: in slices, so that none keeps other connections waiting.

Knows the scheduler and the replies that wait; knows nothing of what is computed.
"""

from __future__ import annotations

from itertools import count

from ottla.broker.scheduler import Scheduler, Steps
from ottla.broker.serving.request import Close, Reply, Waiting
from ottla.broker.serving.waits import Waits


class Computed:
    """Makes replies out of jobs of the scheduler."""

    def __init__(self, scheduler: Scheduler, waits: Waits) -> None:
        self._scheduler = scheduler
        self._waits = waits
        self._numbers = count()

    def reply(self, steps: Steps[Reply]) -> Reply:
        """What the generator returns: at once if one slice is enough for it, otherwise when it comes to its end.

        Meanwhile its connection begins no other request: what one client sends stays in order. An expected failure closes the
        connection. If the client goes away, `Waits` drops the job.
        """
        key, replies = ("computed", next(self._numbers)), list[Reply]()

        def done(reply: Reply) -> None:
            replies.append(reply)
            self._waits.wake(key)

        def failed(failure: Exception) -> None:
            done(Close(f"its request could not be served: {failure}"))

        self._scheduler.begin(key, steps, done, failed, urgent=True)

        return replies[0] if replies else Waiting((key,), None, lambda now, expired: replies[0] if replies else None)
