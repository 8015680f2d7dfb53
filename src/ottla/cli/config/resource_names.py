"""The names of resources with settings, as commands write them: topic/flights, broker/1, broker/*, group/billing, loggers/1."""

from __future__ import annotations

import difflib
from typing import NamedTuple

FORMS = "topic/NAME, broker/ID, broker/* (all brokers), group/NAME, loggers/ID (of a broker) or client-metrics/NAME"
ALL = "*"
KINDS = {"topic": 2, "broker": 4, "group": 32, "loggers": 8, "client-metrics": 16}
"""The kinds of resources, with Kafka's numbers of their types."""
NUMBERED = ("broker", "loggers")
"""The kinds whose resources are named by the id of a broker."""
QUOTAS = "client"
_QUOTA_OPTIONS = {"user": "--user", "id": "--client-id", "ip": "--ip"}


class ResourceName(NamedTuple):
    """A resource on a command line. `kind` is one of `KINDS`."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}"


def parse_resource(text: str) -> ResourceName:
    """Return the resource that a word names. Raises `ValueError` with a sentence."""
    kind, slash, name = text.partition("/")
    if kind == QUOTAS and slash:
        raise ValueError(f"{text!r} has quotas, not settings: see `ottla quota list{_quota_options(name)}`")
    if not slash:
        raise ValueError(f"{text!r} is no resource: write its kind and name, such as {_example(kind)}")
    if kind not in KINDS:
        near = difflib.get_close_matches(kind, KINDS, n=1)
        raise ValueError(f"{text!r} is no resource: write {f'{near[0]}/{name}' if near else FORMS}")
    if not name:
        raise ValueError(f"{text!r} lacks a name: write {FORMS}")
    if kind in NUMBERED and not name.isdecimal() and (kind, name) != ("broker", ALL):
        raise ValueError(
            f"{name!r} is no broker id: write {'broker/1 or broker/*' if kind == 'broker' else f'{kind}/1'}, for example"
        )
    return ResourceName(kind, name)


def _example(word: str) -> str:
    return f"{word}/1" if word in NUMBERED else f"{word}/NAME" if word in KINDS else f"topic/{word or 'NAME'}"


def _quota_options(name: str) -> str:
    """Return the options of `ottla quota` for an entity such as user/alice, id/x, or user/alice/id/x."""
    words = name.split("/")
    pairs = zip(words[::2], words[1::2], strict=False)
    return "".join(f" {_QUOTA_OPTIONS[kind]} {entity}" for kind, entity in pairs if kind in _QUOTA_OPTIONS and entity)


class SettingChange(NamedTuple):
    """A change of one setting. `operation` is set, append or subtract."""

    name: str
    operation: str
    value: str


_OPERATIONS = {"+": "append", "-": "subtract"}


def parse_change(text: str) -> SettingChange:
    """Return the change that name=value, name+=value or name-=value describes. Raises `ValueError` with a sentence."""
    name, equals, value = text.partition("=")
    operation = _OPERATIONS.get(name[-1:], "set")
    name = (name if operation == "set" else name[:-1]).strip()
    if not name or not equals:
        raise ValueError(f"{text!r} is not like retention.ms=86400000, cleanup.policy+=compact or cleanup.policy-=compact")
    return SettingChange(name, operation, value.strip())


def changed_list(value: str | None, operation: str, elements: str) -> str:
    """Return a setting that is a list, such as cleanup.policy, after an operation of `SettingChange`."""
    before, given = ([each.strip() for each in text.split(",") if each.strip()] for text in (value or "", elements))
    if operation == "append":
        return ",".join((*before, *(each for each in given if each not in before)))
    return ",".join(each for each in before if each not in given)
