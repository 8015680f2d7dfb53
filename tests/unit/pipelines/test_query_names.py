"""A query of a script keeps its checkpoint wherever it stands, and what is new begins anew."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from ottla.pipelines.sql import QueryNames

A, B, C = ("late", "SELECT a FROM t"), ("late", "SELECT b FROM t"), ("late", "SELECT c FROM t")
SHOWS = ("select", "SELECT * FROM t")


def kept(names: QueryNames) -> QueryNames:
    return QueryNames(json.loads(json.dumps(names.as_json())))


def test_queries_keep_their_checkpoints_where_another_is_put_between_or_taken_out() -> None:
    names = QueryNames({})
    first, second, shown = names.assign([A, B, SHOWS])
    assert (first, shown) == ("late", "select")
    assert len({first, second, shown}) == 3
    names = kept(names)
    one, new, two = names.assign([A, C, B])
    assert (one, two) == (first, second)
    assert new not in (first, second, shown)
    assert kept(names).assign([B, A]) == [second, first]


def test_blanks_are_no_other_query() -> None:
    names = QueryNames({})
    assert names.assign([A]) == kept(names).assign([(A[0], "SELECT a\n  FROM t")])


def test_a_query_that_is_edited_keeps_its_checkpoint() -> None:
    names = QueryNames({})
    first, second = names.assign([A, B])
    assert kept(names).assign([A, C]) == [first, second]


def test_a_query_that_was_taken_out_gives_its_checkpoint_to_no_other() -> None:
    names = QueryNames({})
    first, second = names.assign([A, B])
    names = kept(names)
    assert names.assign([A]) == [first]
    one, new = kept(names).assign([A, C])
    assert one == first
    assert new not in (first, second)


def test_the_same_query_twice_has_two_checkpoints() -> None:
    names = QueryNames({})
    found = names.assign([A, A])
    assert len(set(found)) == 2
    assert kept(names).assign([A, A]) == found


def test_a_checkpoint_of_an_older_version_is_taken_over() -> None:
    names = QueryNames({})
    (name,) = names.assign([SHOWS])
    names.rename(name, "select-2")
    assert kept(names).assign([A, SHOWS]) == ["late", "select-2"]


texts = st.tuples(st.sampled_from(["late", "select", "late-1"]), st.sampled_from(["a", "b", "c", "d"]))


@given(st.lists(st.lists(texts, max_size=5), min_size=1, max_size=5))
def test_no_two_queries_of_a_script_ever_share_one(scripts: list[list[tuple[str, str]]]) -> None:
    names = QueryNames({})
    owners: dict[str, str] = {}
    for script in scripts:
        found = names.assign(script)
        assert len(set(found)) == len(script)
        for name, (target, _) in zip(found, script, strict=True):
            assert owners.setdefault(name, target) == target
        names = kept(names)
        assert names.assign(script) == found
