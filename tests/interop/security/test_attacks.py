"""Some seven hundred tries to get in or past a rule of access: none does, and meanwhile the broker serves who belongs there.

The tries are rows of `tries`, each with what must come of it. Those of "right" get in by the same steps, so that the others mean
something. Of the canary nothing is told, written or changed by any of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.interop.security.tries.access import access_tries, right_requests
from tests.interop.security.tries.logins import login_tries, right_logins
from tests.interop.security.tries.row import IN, Try
from tests.interop.security.tries.tokens import bearer_tries, right_tokens
from tests.interop.security.tries.wire import certificate_tries, right_wires, tls_tries
from tests.support.fort import Fort, Innocent, besieged

Rows = Callable[[], Iterable[Try]]
TRIES: list[Rows] = [login_tries, access_tries, certificate_tries, tls_tries, bearer_tries]
RIGHT: list[Rows] = [right_logins, right_requests, right_wires, right_tokens]
EVERY_API = ("before a login", "between handshake and token", "between two tokens")
"""Kinds that are the same for each API."""
LEAST = 450
"""Tries that are not of these."""
STAYS = "another login: at once"
"""What is refused here leaves somebody who he was."""
HANDS = 8


def rows_of(makers: list[Rows], *, bearer: bool) -> list[Try]:
    return [row for make in makers for row in make() if bearer or make not in (bearer_tries, right_tokens)]


def faults(fort: Fort, rows: list[Try]) -> list[str]:
    """What came of each, where it is not what must."""

    def tried(row: Try) -> str:
        try:
            return row.act(fort)
        except Exception as fault:  # a row that cannot be tried proves nothing, and is told with the others
            return repr(fault)

    with ThreadPoolExecutor(HANDS) as hands:
        return [
            f"{row}: {came}, not {row.must}" for row, came in zip(rows, hands.map(tried, rows), strict=True) if came != row.must
        ]


@pytest.mark.timeout(300)
@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1:DeprecationWarning")  # by all threads: some try old versions
def test_nobody_gets_in_or_past_a_rule_and_others_are_served_meanwhile(tmp_path_factory: pytest.TempPathFactory) -> None:
    with besieged(tmp_path_factory.mktemp("fort")) as fort:
        bearer = fort.jwt_key is not None
        innocent = Innocent(fort)
        innocent.start()
        assert faults(fort, rows_of(RIGHT, bearer=bearer)) == []
        before = innocent.count
        assert faults(fort, rows_of(TRIES, bearer=bearer)) == []
        assert innocent.count > before
        assert faults(fort, rows_of(RIGHT, bearer=bearer)) == []
        innocent.end()
        assert innocent.failure is None
        assert fort.state() == fort.before
        assert fort.found_of_secrets == []


def test_the_table_is_long_and_no_try_is_in_it_twice_or_may_get_in() -> None:
    rows = rows_of(TRIES, bearer=True)
    assert [name for name, count in Counter(map(str, rows)).items() if count > 1] == []
    assert len([row for row in rows if row.kind not in EVERY_API]) >= LEAST
    assert [str(row) for row in rows if row.must.endswith(IN)] == [STAYS]
