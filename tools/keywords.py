"""Writes the keyword arguments of clients and brokers from the declarations of their settings: `python -m tools.keywords`.

Type checkers and editors need them spelled out as a `TypedDict` (PEP 692). A test holds the files against the declarations.
`typed_page` has one for each pair of key and value types, from which overloads of clients infer the types of records.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterable
from dataclasses import Field, fields
from pathlib import Path

import ottla
from ottla.broker.settings import BrokerSettings
from ottla.client.settings.clients import AdminSettings, ClientSettings, ConsumerSettings, ProducerSettings, ShareConsumerSettings
from ottla.client.settings.declaration import OneOf

SOURCE = Path(__file__).parents[1] / "src/ottla"
PYTHON_TYPES = {"boolean": "bool", "int": "int", "long": "int", "short": "int", "double": "float"}
SERVERS = "bootstrap_servers"
"""The first positional argument of every client but consumers, whose positional arguments are topics."""

HEAD = '''"""{} Written by `tools/keywords.py`: change the declarations, not this file."""

from __future__ import annotations

{}from typing import {}TypedDict
'''
IMPORTS = [
    "from ottla.client.consumer.assignors import PartitionAssignor, StrategyName",
    "from ottla.client.interceptors import ConsumerInterceptor, ProducerInterceptor",
    "from ottla.client.metrics.registry import MetricsSnapshot",
    "from ottla.client.serializers import Deserialize, FormatName, Serialize",
    "from ottla.schemas.registry_values import RegistrySerializer",
    "",
    "Servers = str | Sequence[str] | Set[str]",
    '"""Addresses of brokers, as host:port: separated by commas, or one by one. Type checkers refuse a dict."""',
    "",
]


def client_page() -> str:
    """`ottla.client.keywords`."""
    common = {field.name: field for field in fields(ClientSettings)}
    own = {
        kind: {field.name: field for field in fields(kind) if field.name not in common}
        for kind in (ProducerSettings, ConsumerSettings, ShareConsumerSettings, AdminSettings)
    }
    own[ConsumerSettings][SERVERS] = own[ShareConsumerSettings][SERVERS] = common.pop(SERVERS)
    formats = {
        kind: {name: declared.pop(name) for name in list(declared) if name.endswith(("_serializer", "_deserializer"))}
        for kind, declared in own.items()
    }
    lines = [
        HEAD.format(
            "The settings of clients as keyword arguments.",
            "from collections.abc import Awaitable, Callable, Iterable, Sequence, Set\n",
            "Literal, ",
        ),
        *IMPORTS,
    ]
    lines += _class("ClientKeywords", "TypedDict", "Settings of every client.", map(_client_setting, common.values()))
    for kind, declared in own.items():
        name = kind.__name__.removesuffix("Settings")
        words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()
        sentence = f"Settings of {'an' if name == 'Admin' else 'a'} {words}."
        options = f"{name}Options" if formats[kind] else f"{name}Keywords"
        lines += _class(options, "ClientKeywords", sentence, map(_client_setting, declared.values()))
        if formats[kind]:
            sentence = f"{sentence[:-1]}, with the formats of keys and values."
            lines += _class(f"{name}Keywords", options, sentence, map(_client_setting, formats[kind].values()))
    return "\n".join(lines)


TYPED_HEAD = '''"""The keyword arguments of clients by types of keys and values. Written by `tools/keywords.py`, not by hand.

Only type checkers read the module: overloads of `Producer` and `Consumer` infer the types of keys and values from it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Literal, TypedDict, TypeVar

from ottla.client.consumer.rebalance_listeners import Listener
from ottla.client.keywords import ConsumerKeywords, ConsumerOptions, ProducerOptions
from ottla.schemas.registry_values import RegistrySerializer

Key = TypeVar("Key")
Value = TypeVar("Value")
'''
INTEGERS, OTHERS = 'Literal["int16", "int32", "int64"]', 'Literal["bool", "float32", "float64", "json", "uuid"]'
TYPES = {
    "Bytes": 'Literal["bytes"] | None',
    "Own": "",
    "Str": 'Literal["str"]',
    "Int": INTEGERS,
    "Any": OTHERS,
}
"""The types of keys and values by name, with the formats that they have. `Own` is that of a user's function."""
PHRASES = {"Bytes": "bytes", "Own": "a function's type", "Str": "str", "Int": "int", "Any": "any type"}
OWN = {"Producer": "Callable[[{}], bytes | None]", "Consumer": "Callable[[bytes], {}]"}
SETTING = {"Producer": "serializer", "Consumer": "deserializer"}


def typed_page() -> str:
    """Return the module `ottla.client.typed_keywords`."""
    lines = [TYPED_HEAD]
    listeners = [f"    on_{event}: Listener | None" for event in ("assigned", "revoked", "lost")]
    lines += _class("ListenerKeywords", "TypedDict", "The rebalance listeners of a consumer.", listeners)
    lines += ["", "class AnyConsumer(ConsumerKeywords, ListenerKeywords):", '    """Keyword arguments of a consumer."""', ""]
    for client in OWN:
        for field in ("Key", "Value"):
            for kind, formats in TYPES.items():
                base = f"TypedDict, Generic[{field}]" if kind == "Own" else "TypedDict"
                given = formats or OWN[client].format(field)
                if client == "Producer" and kind == "Any":
                    given = f"{given} | RegistrySerializer"
                name = f"{client}{field}{kind}({base}{', total=False' if kind == 'Bytes' else ''})"
                lines += ["", f"class {name}:", f'    """{field}s of {PHRASES[kind]}."""', ""]
                lines += [f"    {field.lower()}_{SETTING[client]}: {given}", ""]
        for key in TYPES:
            for value in TYPES:
                if key == "Any" and value in ("Int", "Any"):
                    continue  # rare: the last overload, which takes all settings, is for them
                parts = [f"{client}{field}{kind}{_of(kind, field)}" for field, kind in (("Key", key), ("Value", value))]
                base = "ProducerOptions" if client == "Producer" else "ConsumerOptions, ListenerKeywords"
                lines += ["", f"class {client}{key}{value}({base}, {', '.join(parts)}):"]
                lines += [f'    """Keys of {PHRASES[key]}, values of {PHRASES[value]}."""', ""]
    return "\n".join(lines)


def _of(kind: str, field: str) -> str:
    return f"[{field}]" if kind == "Own" else ""


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


PAGES = {"client/keywords.py": client_page, "client/typed_keywords.py": typed_page, "net/process/broker_keywords.py": broker_page}

if __name__ == "__main__":
    for path, page in PAGES.items():
        (SOURCE / path).write_text(page())
