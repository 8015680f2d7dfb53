"""The results of a call about several items: each item has a result or an error, so that one refused item hides no other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Self, TypedDict, TypeVar

from ottla.client.arguments import short_repr, whole
from ottla.client.errors import KafkaError, broker_error

Key = TypeVar("Key")
Value = TypeVar("Value")


class CallOptions(TypedDict, total=False):
    """The options of a call about several items.

    `check` is True by default: the call raises the first error. With False, it returns the results with their `errors`.
    `timeout_ms` limits the call, retries included, instead of `default_api_timeout_ms`.
    """

    check: bool
    timeout_ms: int


def checked_options(options: CallOptions) -> int | None:
    """Return the timeout of a call in ms, or None for that of the client. Raises `TypeError` for an unknown or wrong option."""
    for name in options:
        if name not in CallOptions.__annotations__:
            raise TypeError(f"{name!r} is not an option of this call: check and timeout_ms are.")
    if not isinstance(options.get("check", True), bool):
        raise TypeError(f"check is True or False, not {short_repr(options['check'])}.")
    return whole("timeout_ms", options["timeout_ms"], 1) if "timeout_ms" in options else None


class Results(dict[Key, Value]):
    """The results of the items that succeeded, by item. `errors` has the errors of the others; reading one of these raises it."""

    errors: dict[Key, KafkaError]

    def __init__(self, found: Mapping[Key, Value] | None = None, errors: Mapping[Key, KafkaError] | None = None) -> None:
        super().__init__(found or {})
        self.errors = dict(errors or {})

    def __missing__(self, key: Key) -> Value:
        raise self.errors[key] if key in self.errors else KeyError(key)

    def raise_first(self) -> Self:
        """Return the results if there are no errors. Raise the first error otherwise, one that is not retriable before others.

        The attribute `results` of the exception has the results and all errors.
        """
        _raise_first(self, self.errors.values())
        return self


class ResultList(list[Value]):
    """The results of several brokers or items in one list. `errors` has the errors by node id, or by item."""

    errors: dict[Any, KafkaError]

    def __init__(self, found: Iterable[Value], errors: Mapping[Any, KafkaError]) -> None:
        super().__init__(found)
        self.errors = dict(errors)

    def raise_first(self) -> Self:
        """Return the list if there are no errors. Raise the first error otherwise, as `Results.raise_first` does."""
        _raise_first(self, self.errors.values())
        return self


def _raise_first(results: object, errors: Iterable[KafkaError]) -> None:
    for error in sorted(errors, key=lambda error: error.retriable):
        error.results = results
        raise error


def outcome(code: int, value: Value, context: str, message: str | None = None) -> Value | KafkaError:
    """Return `value`, or the exception for the error code `code` of an item if it is not 0."""
    return broker_error(code, context, message) if code else value
