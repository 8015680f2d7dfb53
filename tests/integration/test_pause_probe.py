"""`bench.pause_probe`: a broker that records its event loop."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path

from bench.log_served import create
from bench.pauses import ROOT, ProbedBroker
from bench.raw import one_at_a_time


def test_a_recorded_broker_serves_and_saves_the_causes_of_its_loops_time(tmp_path: Path) -> None:
    with ProbedBroker(tmp_path / "data", environment={"PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT)))}) as broker:
        create(broker.address, "t")
        one_at_a_time(broker.address, "t", 20, acks=-1)
    causes, spans = broker.spans()
    assert {"request: Produce", "file: pwritev", "requests for syncs", "waits for events"} <= set(causes)
    assert all(begin < end <= next_begin for (begin, end, _), (next_begin, _, _) in pairwise(spans))
