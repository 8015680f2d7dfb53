"""The declaration of settings. A setting is a class attribute, read as an attribute of instances and found by Kafka's name.

    class Settings(SettingsOf):
        num_partitions = Setting(INT, 1, "Partitions of a topic that is created without a number.", check=at_least(1))

`Settings({"num.partitions": "3"}).num_partitions` is then an `int`, 3. Independent of any particular setting.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import ClassVar, Generic, Never, Self, TypedDict, TypeVar, Unpack, cast, overload

from ottla.broker.settings.kinds import PASSWORD, BadValue, Check, Kind
from ottla.errors import SettingError

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Reach(Enum):
    """The resources for which a broker setting can change at runtime (KIP-226)."""

    ALL = "all brokers, or one of them by its number"
    ONE = "one broker, by its number"
    LISTENER = "one listener of one broker, by a prefix"


class Setting(Generic[T_co]):
    """The declaration of one setting. `sentence` describes it.

    A `dynamic` setting can change at runtime, for the resources in `reach`. `falls_back`: settings that apply while this one is not
    set (log.retention.minutes, then log.retention.hours). `broker`: the broker setting that is the default of a topic or group
    setting. A `hidden` setting is accepted, but not listed. A `later` setting is accepted, stored and listed, but has no effect
    yet. An `idle` setting never has an effect.
    """

    __slots__ = (
        "broker", "check", "default", "dynamic", "falls_back", "hidden", "idle", "kind", "later", "name", "reach", "sentence",
    )  # fmt: skip

    def __init__(
        self,
        kind: Kind[T_co],
        default: T_co,
        sentence: str,
        *,
        check: Check[T_co] | None = None,
        dynamic: bool = False,
        falls_back: tuple[str, ...] = (),
        broker: str | None = None,
        hidden: bool = False,
        later: bool = False,
        idle: bool = False,
        reach: Reach = Reach.ALL,
    ) -> None:
        self.kind = kind
        self.default = default
        self.sentence = sentence
        self.check = check
        self.dynamic = dynamic
        self.falls_back = falls_back
        self.broker = broker
        self.hidden = hidden
        self.later = later
        self.idle = idle
        self.reach = reach
        self.name = ""

    def __set_name__(self, owner: type, attribute: str) -> None:
        self.name = attribute.replace("_", ".")

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type) -> T_co: ...

    def __get__(self, instance: object | None, owner: type) -> Self | T_co:
        return self if instance is None else self.default

    @property
    def attribute(self) -> str:
        return self.name.replace(".", "_")

    @property
    def documentation(self) -> str:
        return f"{self.sentence} (No effect yet.)" if self.later else self.sentence

    @property
    def is_sensitive(self) -> bool:
        """Return whether the value must never be shown, neither in a response nor in a log."""
        return self.kind is PASSWORD

    def parse(self, text: str) -> T_co:
        """Parse and check a value. Raises `SettingError`."""
        try:
            value = self.kind.parse(text)
        except BadValue as refused:
            raise self._refusal(text.strip(), str(refused)) from None
        if self.check is not None and not self.check.holds(value):
            culprit = self.check.culprit or self.kind.show
            raise self._refusal(culprit(value), self.check.refusal(value))
        return value

    def _refusal(self, text: str, why: str) -> SettingError:
        return SettingError(f"Invalid value {'[hidden]' if self.is_sensitive else text} for configuration {self.name}: {why}.")

    def show(self, value: object) -> str | None:
        """Format a value as Kafka does; None for None."""
        return None if value is None else self.kind.show(value)

    @property
    def shown_default(self) -> str | None:
        return self.show(self.default)


LONGEST_VALUE_BYTES = 32_767
"""Upper limit of a config value, in bytes, because non-flexible responses can't contain longer strings."""


class Options(TypedDict, total=False):
    """Options of a setting that do not depend on its type."""

    dynamic: bool
    falls_back: tuple[str, ...]
    hidden: bool
    reach: Reach


def unset(kind: Kind[T], sentence: str, *, check: Check[Never] | None = None, **options: Unpack[Options]) -> Setting[T | None]:
    """Return a setting without a default: None until it is set. `check` applies to values of `kind`."""
    # Only parsed values are checked, and no string parses to None.
    return Setting[T | None](kind, None, sentence, check=cast("Check[T | None] | None", check), **options)


def default_of(setting: Setting[T], *, check: Check[T] | None = None, dynamic: bool = True) -> Setting[T]:
    """Return the broker setting that is the default of a topic or group setting; `check` replaces the check of `setting`."""
    sentence = f"Default of {setting.name}."
    return Setting(
        setting.kind,
        setting.default,
        sentence,
        check=check or setting.check,
        dynamic=dynamic,
        hidden=setting.hidden,
        later=setting.later,
    )


class SettingsOf:
    """A set of settings, with strings for some of them and defaults for the others.

    Every value is an attribute (dots become underscores). Raises `SettingError` for an unknown name or an invalid value.
    """

    DECLARED: ClassVar[dict[str, Setting[object]]] = {}
    TABLE: ClassVar[dict[str, Setting[object]]] = {}
    """Settings declared by name in a table. A class attribute for the same setting takes precedence."""
    UNKNOWN: ClassVar[str] = "There is no setting '{}'"

    def __init_subclass__(cls) -> None:
        found = {item.name: item for base in reversed(cls.__mro__) for item in vars(base).values() if isinstance(item, Setting)}
        cls.DECLARED = dict(sorted((cls.TABLE | found).items()))

    def __init__(self, given: Mapping[str, str] | None = None) -> None:
        self.given = dict(given or {})
        self._set_texts(self.given)

    def _set_texts(self, texts: Mapping[str, str]) -> None:
        for name, text in texts.items():
            setting = self.find(name)
            value = setting.parse(text)
            if name == setting.name:
                # The descriptor has no __set__, so the instance attribute hides it and is as fast as any.
                self.__dict__[setting.attribute] = value

    @classmethod
    def find(cls, name: str) -> Setting[object]:
        """Return the setting of this name. Raises `SettingError`, which suggests the most similar name."""
        found = cls.DECLARED.get(name)
        if found is None:
            raise SettingError(unknown(name, cls.DECLARED, cls.UNKNOWN))
        return found

    def value(self, name: str) -> object:
        setting = self.DECLARED[name]
        return self.__dict__.get(setting.attribute, setting.default)

    def text_of(self, name: str) -> str | None:
        """Return the effective value, formatted as Kafka does."""
        return self.DECLARED[name].show(self.value(name))


def size_error(texts: Mapping[str, str]) -> str | None:
    """Return a message about a value that is too long to be described to clients; None if no value is."""
    for name, text in texts.items():
        if len(text.encode(errors="surrogatepass")) > LONGEST_VALUE_BYTES:
            return f"The value of {name} would have more than {LONGEST_VALUE_BYTES} bytes, which no client can read: shorten it."
    return None


def unknown(name: str, names: Iterable[str], sentence: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name.replace("_", "."), list(names), 1, 0.6)
    return sentence.format(name) + (f"; did you mean {near[0]!r}?" if near else ".")
