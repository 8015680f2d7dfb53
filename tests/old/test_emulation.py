"""A listener that is an old release answers what that release was heard to answer."""

from __future__ import annotations

import json
from typing import Any

import pytest

import ottla
from tests.old.conversations import answers
from tests.old.differences import DIFFERENCES
from tests.old.record import recorded
from tests.support.kinds import one_of_each
from tests.support.old_kafka import RELEASES

HEARD: dict[str, dict[str, tuple[Any, Any]]] = {}


def differing(release: str) -> dict[str, tuple[Any, Any]]:
    """Kafka's answer and Ottla's, by the request's title, where these are not the same."""
    if release not in HEARD:  # the records were made in 2017, and are not to be gone where this takes long
        with ottla.Broker(release=release, log_retention_ms=-1) as broker:
            heard = json.loads(json.dumps(answers(broker.address)))
        kafka = {title: answer for requests in recorded(release).values() for title, answer in requests.items()}
        ours = {title: answer for requests in heard.values() for title, answer in requests.items()}
        differ = (title for title in kafka | ours if kafka.get(title) != ours.get(title))
        HEARD[release] = {title: (kafka.get(title), ours.get(title)) for title in differ}
    return HEARD[release]


@pytest.mark.parametrize("release", one_of_each(RELEASES, "0.8.2", "0.10.2", seconds=10))
def test_a_listener_answers_as_the_release_that_it_is(release: str) -> None:
    unexplained = {
        title: pair for title, pair in differing(release).items() if not any(known.covers(release, title) for known in DIFFERENCES)
    }
    assert unexplained == {}


@pytest.mark.parametrize("release", one_of_each(RELEASES, "0.8.2", "0.10.2", seconds=15))
def test_every_difference_that_is_explained_is_still_there(release: str) -> None:
    known = [each for each in DIFFERENCES if release in each.releases.split()]
    gone = [each.titles for each in known if not any(each.covers(release, title) for title in differing(release))]
    assert gone == []
