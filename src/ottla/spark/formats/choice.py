"""The options of a job about the formats of keys and values. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ottla.spark.errors import OptionError

FORMATS = ("json", "csv", "avro", "protobuf", "arrow")
REGISTERED = ("avro", "json", "protobuf")
"""The formats whose schemas may be in a registry."""
PERMISSIVE, DROP, FAIL = "PERMISSIVE", "DROPMALFORMED", "FAILFAST"
MODES = (PERMISSIVE, DROP, FAIL)
CORRUPT = {"key": "corruptKey", "value": "corruptValue"}
"""The columns of the source that have the malformed bytes of typed columns. They are null in rows whose values are well-formed."""


@dataclass(frozen=True, slots=True)
class Format:
    """The format of keys or values, from the options. `schema` is the text of the schema option, `registry` a URL or a
    directory.
    """

    name: str
    schema: str | None = None
    registry: str | None = None
    delimiter: str = ","


@dataclass(frozen=True, slots=True)
class Formats:
    """The formats of a source or a sink, and what happens to malformed values. A format of None means unchanged bytes."""

    key: Format | None = None
    value: Format | None = None
    mode: str = PERMISSIVE
    dead_letter_topic: str | None = None

    def formats_by_column(self) -> dict[str, Format]:
        return {column: each for column, each in (("key", self.key), ("value", self.value)) if each is not None}

    def needs_topic(self) -> bool:
        """Return whether a sink needs the topic before it encodes rows, because a registry has schemas by topic."""
        return any(each.registry is not None for each in self.formats_by_column().values())

    def packs_rows(self) -> bool:
        """Return whether each record contains many rows, so that it has no key of its own."""
        return self.value is not None and self.value.name == "arrow"

    def corrupt_columns(self) -> dict[str, str]:
        """Return, by typed column, the column of the source with the bytes of malformed values, so that no value is lost."""
        return {column: CORRUPT[column] for column in self.formats_by_column()} if self.mode == PERMISSIVE else {}


BYTES = Formats()
"""No format: keys and values are bytes."""


def format_name(name: str, text: str) -> str:
    lower = text.strip().lower()
    if lower not in FORMATS:
        raise OptionError(f"Option {name} must be one of {', '.join(FORMATS)}, not {text!r}.")
    return lower


def key_format_name(name: str, text: str) -> str:
    lower = format_name(name, text)
    if lower == "arrow":
        raise OptionError(f"Option {name} cannot be arrow: a record of that format holds many rows and has one key.")
    return lower


def mode(name: str, text: str) -> str:
    upper = text.strip().upper()
    if upper not in MODES:
        raise OptionError(f"Option {name} must be one of {', '.join(MODES)}, not {text!r}.")
    return upper


def delimiter(name: str, text: str) -> str:
    if len(text) != 1 or text in '"\r\n' or not text.isascii():
        raise OptionError(f"Option {name} must be one ASCII character other than a quote or a line's end, not {text!r}.")
    return text


def _one(values: Mapping[str, object], column: str) -> Format | None:
    name = values.get(f"{column}Format")
    if name is None:
        if f"{column}Schema" in values:
            raise OptionError(f"Option {column}Schema needs {column}Format: give that too, such as json.")
        return None
    schema, registry = values.get(f"{column}Schema"), values.get("schemaRegistry")
    registered = str(registry) if registry is not None and name in REGISTERED else None
    return Format(str(name), None if schema is None else str(schema), registered, str(values.get("delimiter", ",")))


def formats_of(values: Mapping[str, object]) -> Formats:
    """Return the formats that the options of a source or a sink specify. Raises `OptionError` if options conflict."""
    key, value = _one(values, "key"), _one(values, "value")
    dead = values.get("deadLetterTopic")
    if key is None and value is None:
        for name in ("schemaRegistry", "mode", "deadLetterTopic", "delimiter"):
            if name in values:
                raise OptionError(f"Option {name} needs keyFormat or valueFormat: give one, such as json.")
    if key is not None and value is not None and value.name == "arrow":
        raise OptionError(
            "Option keyFormat goes without valueFormat arrow, whose records hold many rows and have no key: leave it out."
        )
    if "schemaRegistry" in values and not any(each is not None and each.registry is not None for each in (key, value)):
        raise OptionError(f"Option schemaRegistry is for the formats {', '.join(REGISTERED)}: leave it out, and give valueSchema.")
    if dead is not None and values.get("mode") not in (None, DROP):
        raise OptionError(f"Option deadLetterTopic goes without mode {values['mode']}: what does not fit goes to that topic.")
    chosen = DROP if dead is not None else str(values.get("mode", PERMISSIVE))
    return Formats(key, value, chosen, None if dead is None else str(dead))
