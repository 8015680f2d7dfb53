"""The words of `ottla config` for resources and changes."""

from __future__ import annotations

import re

import pytest

from ottla.cli.config.resource_names import ResourceName, SettingChange, changed_list, parse_change, parse_resource


@pytest.mark.parametrize(
    ("text", "kind", "name"),
    [
        ("topic/flights", "topic", "flights"),
        ("broker/1", "broker", "1"),
        ("broker/*", "broker", "*"),
        ("group/a/b c", "group", "a/b c"),
        ("loggers/12", "loggers", "12"),
        ("client-metrics/all", "client-metrics", "all"),
    ],
)
def test_a_resource_has_a_kind_and_a_name(text: str, kind: str, name: str) -> None:
    assert parse_resource(text) == ResourceName(kind, name)
    assert str(ResourceName(kind, name)) == text


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "such as topic/NAME"),
        ("flights", "such as topic/flights"),
        ("broker", "such as broker/1"),
        ("group", "such as group/NAME"),
        ("/x", "write topic/NAME, broker/ID"),
        ("topics/x", "'topics/x' is no resource: write topic/x"),
        ("logger/1", "write loggers/1"),
        ("topic/", "'topic/' lacks a name"),
        ("broker/x", "'x' is no broker id: write broker/1 or broker/*"),
        ("broker/-1", "'-1' is no broker id"),
        ("loggers/*", "'*' is no broker id: write loggers/1"),
        ("client/user/alice", "has quotas, not settings: see `ottla quota list --user alice`"),
        ("client/user/a/id/b", "see `ottla quota list --user a --client-id b`"),
        ("client/x", "see `ottla quota list`"),
    ],
)
def test_a_wrong_resource_is_corrected(text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=re.escape(sentence)):
        parse_resource(text)


@pytest.mark.parametrize(
    ("text", "change"),
    [
        ("retention.ms=1", SettingChange("retention.ms", "set", "1")),
        ("retention.ms = 1 ", SettingChange("retention.ms", "set", "1")),
        ("a=", SettingChange("a", "set", "")),
        ("match+=client_id=x", SettingChange("match", "append", "client_id=x")),
        ("cleanup.policy-=delete", SettingChange("cleanup.policy", "subtract", "delete")),
        ("a=+=1", SettingChange("a", "set", "+=1")),
    ],
)
def test_a_change_sets_appends_or_subtracts(text: str, change: SettingChange) -> None:
    assert parse_change(text) == change


@pytest.mark.parametrize("text", ["", "a", "=1", "+=1", "-=1"])
def test_a_wrong_change_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not like retention\.ms=86400000"):
        parse_change(text)


@pytest.mark.parametrize(
    ("before", "operation", "elements", "after"),
    [
        (None, "append", "a", "a"),
        ("", "append", "a,b", "a,b"),
        ("a, b", "append", "b,c", "a,b,c"),
        ("a,b", "subtract", "a", "b"),
        ("a", "subtract", "a", ""),
        ("a", "subtract", "x", "a"),
    ],
)
def test_lists_change_as_brokers_change_them(before: str | None, operation: str, elements: str, after: str) -> None:
    assert changed_list(before, operation, elements) == after
