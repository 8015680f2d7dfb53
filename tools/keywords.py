"""Writes the keyword arguments of clients and brokers from the declarations of their settings: `python -m tools.keywords`.

Type checkers and editors need them spelled out as a `TypedDict` (PEP 692). A test holds the files against the declarations.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable
from dataclasses import Field, fields
from pathlib import Path

import ottla
from ottla.broker.settings import BrokerSettings
from ottla.client.settings.clients import AdminSettings, ClientSettings, ConsumerSettings, ProducerSettings
from ottla.client.settings.declaration import OneOf

SOURCE = Path(__file__).parents[1] / "src/ottla"
PYTHON_TYPES = {"boolean": "bool", "int": "int", "long": "int", "short": "int", "double": "float"}
SERVERS = "bootstrap_servers"
"""The first positional argument of every client but a consumer, whose positional arguments are topics."""

HEAD = '''"""{} Written by `tools/keywords.py`: change the declarations, not this file."""

from __future__ import annotations

{}from typing import {}TypedDict
'''
IMPORTS = [
    "from ottla.client.consumer.assignors import PartitionAssignor",
    "from ottla.client.serializers import Deserialize, FormatName, Serialize",
    "from ottla.schemas.registry_values import RegistrySerializer",
    "",
]


def client_page() -> str:
    """`ottla.client.keywords`."""
    common = {field.name: field for field in fields(ClientSettings)}
    own = {
        kind: {field.name: field for field in fields(kind) if field.name not in common}
        for kind in (ProducerSettings, ConsumerSettings, AdminSettings)
    }
    own[ConsumerSettings][SERVERS] = common.pop(SERVERS)
    lines = [
        HEAD.format(
            "The settings of clients as keyword arguments.", "from collections.abc import Callable, Iterable\n", "Literal, "
        ),
        *IMPORTS,
    ]
    lines += _class("ClientKeywords", "TypedDict", "Settings of every client.", map(_client_setting, common.values()))
    for kind, declared in own.items():
        name = kind.__name__.removesuffix("Settings")
        sentence = f"Settings of {'an' if name == 'Admin' else 'a'} {name.lower()}."
        lines += _class(f"{name}Keywords", "ClientKeywords", sentence, map(_client_setting, declared.values()))
    return "\n".join(lines)


def _client_setting(declared: Field[object]) -> str:
    check = declared.metadata["check"]
    kind = declared.metadata["given"] or declared.type
    if kind == "str" and isinstance(check, OneOf):
        kind = f"Literal[{', '.join(json.dumps(word) for word in check.choices)}]"
    return f'    {declared.name}: {kind}\n    """{declared.metadata["sentence"]}"""'


def broker_page() -> str:
    """`ottla.net.process.broker_keywords`: every setting that has an effect."""
    parameters = inspect.signature(ottla.Broker.__init__).parameters
    declared = [
        f"    {setting.attribute}: {PYTHON_TYPES.get(setting.kind.name, 'str')}"
        for setting in BrokerSettings.DECLARED.values()
        if not (setting.idle or setting.later or setting.hidden or setting.attribute in parameters)
    ]
    sentence = "Settings of a broker that have an effect; docs/settings.md describes them. Others of Kafka's are accepted too."
    return "\n".join(
        [
            HEAD.format("The settings of a broker as keyword arguments.", "", ""),
            *_class("BrokerKeywords", "TypedDict", sentence, declared),
        ]
    )


def _class(name: str, base: str, sentence: str, declared: Iterable[str]) -> list[str]:
    body = list(declared)
    return [f'\nclass {name}({base}, total=False):\n    """{sentence}"""', *(["", *body] if body else []), ""]


PAGES = {"client/keywords.py": client_page, "net/process/broker_keywords.py": broker_page}

if __name__ == "__main__":
    for path, page in PAGES.items():
        (SOURCE / path).write_text(page())
