"""The answers written down are still what Apache Kafka of long ago gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.old.conversations import answers
from tests.old.record import recorded
from tests.support.kinds import one_of_each
from tests.support.old_kafka import RELEASES, started

pytestmark = pytest.mark.java


@pytest.mark.full(seconds=20)
@pytest.mark.parametrize("release", one_of_each(RELEASES, "0.9.0", seconds=15))
def test_an_old_broker_answers_as_was_written_down(release: str, tmp_path: Path) -> None:
    with started(release, tmp_path) as broker:
        heard = answers(broker.address)
    kept = recorded(release)
    assert {name: differing(kept[name], heard[name]) for name in kept} == {name: {} for name in heard}


def differing(kept: dict[str, Any], heard: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """What was written down and what was heard, of each request where these differ."""
    return {title: (kept.get(title), heard.get(title)) for title in kept | heard if kept.get(title) != heard.get(title)}
