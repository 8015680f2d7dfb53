"""The steps of `ottla.once` that tasks and committers share. They run on one event loop and one cluster of a process.

A process keeps loop and cluster for all tasks and batches, because new connections and producer ids would cost more than a small
batch. Tests can end a process at `call_hook`.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from ottla.client.settings.clients import ProducerSettings
from ottla.net.client.background import BackgroundLoop
from ottla.net.client.cluster import ClusterLinks
from ottla.net.client.tasks import Tasks
from ottla.once.steps import (
    DescribeIds,
    EndHanded,
    FenceWriter,
    ListOpen,
    ReadDecision,
    Result,
    Steps,
)
from ottla.spark.exactly_once.coordinator_requests import HandedCoordinators
from ottla.spark.exactly_once.decision_log import DecisionLog

HOOK: Final = "OTTLA_ONCE_HOOK"
"""An environment variable for tests: `module:function`, called with the step's name before and after each step."""


def call_hook(point: str) -> None:
    """Call the hook that a test has set for the step `point`. Do nothing without a hook."""
    if hook := os.environ.get(HOOK):
        module, _, name = hook.partition(":")
        getattr(importlib.import_module(module), name)(point)


class OnceCluster:
    """The connections of one process for one sink: to the coordinators, and to the decision topic."""

    def __init__(self, settings: ProducerSettings, decision_topic: str) -> None:
        self.settings = replace(settings, transactional_id=None)
        self._topic = decision_topic
        self.loop = BackgroundLoop.begin("ottla-once", self._start)

    async def _start(self) -> None:
        self._tasks = Tasks(lambda closed: None)
        cluster = ClusterLinks(self.settings, self._tasks, whole_tries=True)
        self.coordinators = HandedCoordinators(cluster)
        self.decisions = DecisionLog(cluster, self._topic)
        self._cluster = cluster

    def close(self) -> None:
        try:
            self.loop.run(self._cluster.close())
        finally:
            self.loop.stop()

    def carry_out(self, name: str, step: Any) -> Any:
        """Run a step that is the same for tasks and committers, and return the step's result. Raises `KafkaError`."""
        match step:
            case ReadDecision():
                return self.loop.run(self.decisions.last(name))
            case DescribeIds(transactional_ids):
                return self.loop.run(self.coordinators.describe(transactional_ids))
            case EndHanded(transactions, committed):
                return self.loop.run(self.coordinators.end(transactions, committed=committed))
            case ListOpen(prefix):
                return self.loop.run(self.coordinators.open_ids(prefix))
            case FenceWriter(transactional_id):
                return self.loop.run(self.coordinators.fence(transactional_id))
        raise AssertionError(f"nobody carries out {step}")


def run(steps: Steps[Result], carry_out: Callable[[Any], Any]) -> Result:
    """Run steps one after another, and return the generator's result. Raises exceptions of the steps."""
    try:
        step = next(steps)
        while True:
            point = type(step).__name__
            call_hook(f"before {point}")
            try:
                answer = carry_out(step)
            except Exception as error:
                step = steps.throw(error)
            else:
                call_hook(f"after {point}")
                step = steps.send(answer)
    except StopIteration as end:
        result: Result = end.value
        return result
