"""The columns of a topic are found in its values, and are what `ottla pipeline sql` takes."""

from __future__ import annotations

import pytest

from ottla.pipelines.statements import CreateTable, statements_of

pytest.importorskip("pyarrow", reason="pyarrow is absent: pip install 'ottla[spark]'")

from ottla.pipelines.tables import TopicTable, columns_of


@pytest.mark.parametrize(
    ("values", "columns"),
    [
        ([b'{"a": 1, "b": "x"}', b'{"a": 2.5, "c d": [{"e": true}]}'], "a DOUBLE, b STRING, `c d` ARRAY<STRUCT<e: BOOLEAN>>"),
        ([b'{"at": "2026-11-22T10:00:00Z", "nothing": null}'], "at STRING, nothing STRING"),
        ([b'{"a":\n 1}', b'{"a": 2}'], "a BIGINT"),
        ([b'{"a": 1}', b'{"a": "x"}'], None),
        ([b'{"a": 1}', b"text"], None),
        ([b"{text}"], None),
        ([], None),
    ],
)
def test_columns_are_found_in_values_that_are_json(values: list[bytes], columns: str | None) -> None:
    assert columns_of(values) == columns


def test_a_table_is_created_by_the_statement_that_is_shown() -> None:
    shaped = TopicTable("flights", 2, 10, "a DOUBLE, `c d` ARRAY<STRUCT<e: BOOLEAN>>")
    assert statements_of(shaped.as_sql()) == [CreateTable("flights", shaped.columns, {"subscribe": "flights"})]
    assert statements_of(TopicTable("late-flights", 2, 10, None).as_sql()) == [
        CreateTable("late-flights", None, {"subscribe": "late-flights"})
    ]
