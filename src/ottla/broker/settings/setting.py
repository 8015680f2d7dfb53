"""What a setting is: declared once as a class attribute, read everywhere as that attribute, found by Kafka's name.

    class Settings(SettingsOf):
        num_partitions = Setting(INT, 1, "Partitions of a topic that is created without a number.", check=at_least(1))

`Settings({"num.partitions": "3"}).num_partitions` is then an `int`, 3. Knows no particular setting.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from enum import Enum
from typing import ClassVar, Generic, Never, Self, TypedDict, TypeVar, Unpack, cast, overload

from ottla.broker.settings.kinds import PASSWORD, BadValue, Check, Kind
from ottla.errors import SettingError

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Reach(Enum):
    """For whom a broker's setting can be changed while the broker runs (KIP-226)."""

    ALL = "all brokers, or one of them by its number"
    ONE = "one broker, by its number"
    LISTENER = "one listener of one broker, by a prefix"


class Setting(Generic[T_co]):
    """One setting. `sentence` says what it is for; `dynamic` ones can be changed while the broker runs, for the brokers in `reach`.

    `falls_back`: the settings whose values apply while this one has none (log.retention.minutes, then log.retention.hours).
    `broker`: for a setting of a topic or a group, the broker setting that is its default. `hidden` ones are accepted, but not
    listed; those for `later` are accepted, kept and listed, but have no effect yet; `idle` ones never have any.
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
        """What it is for, as people read it."""
        return f"{self.sentence} (No effect yet.)" if self.later else self.sentence

    @property
    def is_sensitive(self) -> bool:
        """Whether it must not be shown, neither in a reply nor in a log."""
        return self.kind is PASSWORD

    def parse(self, text: str) -> T_co:
        """Raises `SettingError`."""
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
        """One of this setting's values as Kafka writes it; None where there is none."""
        return None if value is None else self.kind.show(value)

    @property
    def shown_default(self) -> str | None:
        return self.show(self.default)


LONGEST_VALUE_BYTES = 32_767
"""Responses before flexible versions hold no longer strings."""


class Options(TypedDict, total=False):
    """Options of a setting that do not depend on its kind."""

    dynamic: bool
    falls_back: tuple[str, ...]
    hidden: bool
    reach: Reach


def unset(kind: Kind[T], sentence: str, *, check: Check[Never] | None = None, **options: Unpack[Options]) -> Setting[T | None]:
    """A setting without a default: None until it is set. `check` is one for values of `kind`."""
    # Only what was parsed is checked, and no text is parsed to None.
    return Setting[T | None](kind, None, sentence, check=cast("Check[T | None] | None", check), **options)


def default_of(setting: Setting[T], *, check: Check[T] | None = None, dynamic: bool = True) -> Setting[T]:
    """The broker setting that is the default of a setting of a topic or a group; `check` replaces the check of that one."""
    sentence = f"Default of {setting.name}."
    return Setting(setting.kind, setting.default, sentence, check=check or setting.check, dynamic=dynamic, later=setting.later)


class SettingsOf:
    """A set of settings with the texts that were given for some of them; the others have their defaults.

    Every value is an attribute (dots become underscores). Raises `SettingError` for an unknown name or a refused value.
    """

    DECLARED: ClassVar[dict[str, Setting[object]]] = {}
    TABLE: ClassVar[dict[str, Setting[object]]] = {}
    """Settings that are not attributes of the class, by name; an attribute of the same name overrides them."""
    UNKNOWN: ClassVar[str] = "There is no setting '{}'"

    def __init_subclass__(cls) -> None:
        found = {item.name: item for base in reversed(cls.__mro__) for item in vars(base).values() if isinstance(item, Setting)}
        cls.DECLARED = dict(sorted((cls.TABLE | found).items()))

    def __init__(self, given: Mapping[str, str] | None = None) -> None:
        self.given = dict(given or {})
        self._take(self.given)

    def _take(self, texts: Mapping[str, str]) -> None:
        for name, text in texts.items():
            setting = self.find(name)
            value = setting.parse(text)
            if name == setting.name:
                # The descriptor has no __set__, so from here on the attribute is a plain one, as fast as any.
                self.__dict__[setting.attribute] = value

    @classmethod
    def find(cls, name: str) -> Setting[object]:
        """The setting of this name. Raises `SettingError`, which names the most similar one."""
        found = cls.DECLARED.get(name)
        if found is None:
            raise SettingError(unknown(name, cls.DECLARED, cls.UNKNOWN))
        return found

    def value(self, name: str) -> object:
        """The value in force."""
        setting = self.DECLARED[name]
        return self.__dict__.get(setting.attribute, setting.default)

    def shown(self, name: str) -> str | None:
        """The value in force, as Kafka writes it."""
        return self.DECLARED[name].show(self.value(name))


def size_error(texts: Mapping[str, str]) -> str | None:
    """Return why a value is too long to be described to any client, as a sentence; None if none is."""
    for name, text in texts.items():
        if len(text.encode(errors="surrogatepass")) > LONGEST_VALUE_BYTES:
            return f"The value of {name} would have more than {LONGEST_VALUE_BYTES} bytes, which no client can read: shorten it."
    return None


def unknown(name: str, names: Iterable[str], sentence: str) -> str:
    near = get_close_matches(name.replace("_", "."), list(names), 1, 0.6)
    return sentence.format(name) + (f"; did you mean {near[0]!r}?" if near else ".")
