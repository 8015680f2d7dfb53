"""Who may do what, and what those hear who may not: every API as Apache Kafka 4.3 with its StandardAuthorizer answers.

`acl_answers.json` was written by Apache Kafka: `--peer=apache-kafka --rewrite-scenarios` writes it anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from bench.apache_kafka import Unavailable
from tests.support.acl_cases import ASKED, World, cases
from tests.support.acl_peers import kafka_of_users, ottla_of_users
from tests.support.recorded import recorded
from tests.support.routes import all_routes

SEEN = Path(__file__).with_name("acl_answers.json")
SERVED = set(all_routes())
OF_EACH = {key: list(group) for key, group in groupby(cases(), key=lambda case: case.key)}


@pytest.fixture(scope="module")
def heard(peer_name: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What each case hears: they are asked in order, for what one of them makes another may see."""
    start = ottla_of_users if peer_name == "ottla" else kafka_of_users
    try:
        with start(tmp_path_factory.mktemp("acls") / "broker") as ask:
            world = World(ask)
            world.prepare()
            return {str(case): world.answer(case) for key in ASKED if key in SERVED for case in OF_EACH[key]}
    except Unavailable as missing:
        pytest.skip(f"no Apache Kafka: {missing}")


@pytest.fixture(scope="module")
def seen(request: pytest.FixtureRequest, peer_name: str) -> Iterator[dict[str, Any]]:
    yield from recorded(SEEN, request, peer_name)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("key", [key for key in ASKED if key in SERVED])
@pytest.mark.rows(12)
def test_each_user_hears_what_apache_kafka_tells_him(
    heard: dict[str, Any], seen: dict[str, Any], request: pytest.FixtureRequest, key: int
) -> None:
    names = [str(case) for case in OF_EACH[key]]
    if request.config.getoption("--rewrite-scenarios"):
        seen |= {name: heard[name] for name in names}
    wrong = [f"{name}:\n  {heard[name]}, and Apache Kafka\n  {seen[name]}" for name in names if heard[name] != seen[name]]
    assert not wrong, "\n".join(wrong)
