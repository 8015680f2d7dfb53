"""A script is cut into statements, and each is known for what it is."""

from __future__ import annotations

import pytest

from ottla.pipelines.errors import PipelineError
from ottla.pipelines.statements import CreateTable, ForSpark, InsertInto, ShowRows, split, statements_of, words_of


def test_semicolons_in_quotes_and_comments_do_not_count() -> None:
    script = '-- first; comment\nSELECT \';\' AS a; /* one;\n two */ SELECT `x;y`, "a\\";b", 1 - 2;;\n'
    assert list(split(script)) == ["SELECT ';' AS a", 'SELECT `x;y`, "a\\";b", 1 - 2']


def test_each_statement_is_known_for_what_it_is() -> None:
    script = """
        SET spark.sql.shuffle.partitions = 4;
        create table flights (origin STRING, at STRUCT<day: DATE, place: DECIMAL(9, 2)>) using ottla
            options (subscribe 'flights-eu', "kafka.client.id" = "night", maxOffsetsPerTrigger 500);
        CREATE TABLE `late-flights`;
        INSERT INTO TABLE late SELECT origin FROM flights;
        insert into `late-flights` with a as (select 1) select * from a;
        SELECT * FROM late
    """
    assert statements_of(script) == [
        ForSpark("SET spark.sql.shuffle.partitions = 4"),
        CreateTable(
            "flights",
            "origin STRING, at STRUCT<day: DATE, place: DECIMAL(9, 2)>",
            {"subscribe": "flights-eu", "kafka.client.id": "night", "maxOffsetsPerTrigger": "500"},
        ),
        CreateTable("late-flights"),
        InsertInto("late", "SELECT origin FROM flights"),
        InsertInto("late-flights", "with a as (select 1) select * from a"),
        ShowRows("SELECT * FROM late"),
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("CREATE TABLE a (b INT", "parenthesis of CREATE TABLE a is not closed"),
        ("CREATE TABLE a USING parquet", "CREATE TABLE a is followed by 'USING parquet'"),
        ("CREATE TABLE a USING ottla OPTIONS (subscribe)", "options of CREATE TABLE a cannot be read at 'subscribe'"),
    ],
)
def test_what_cannot_be_read_is_told(text: str, said: str) -> None:
    with pytest.raises(PipelineError, match=said):
        statements_of(text)


def test_names_are_found_outside_of_quotes() -> None:
    assert words_of("SELECT 'weather' FROM flights JOIN `late-flights`") == {"SELECT", "FROM", "flights", "JOIN", "late-flights"}
