"""Clients outside of their lifetime: not started yet, or carried to another process. Both are refused in a sentence."""

from __future__ import annotations

from typing import NoReturn, TypeVar

from ottla.client.errors import KafkaError

Client = TypeVar("Client", bound=type)


def not_started(kind: str) -> KafkaError:
    """Return the exception for the use of an asynchronous client of class `kind` that has not been started."""
    return KafkaError(f"This {kind} is not started: use it within `async with`, or await its start() first.")


class Unstarted:
    """A stand-in for what `start` makes. Any use raises `KafkaError`."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def __getattr__(self, name: str) -> NoReturn:
        raise not_started(self._kind)


class _MadeByStart:
    """An attribute of a class whose objects get it in `start`. Access before raises `KafkaError`."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def __get__(self, instance: object, owner: type) -> object:
        if instance is None:  # `inspect` looks at classes
            return self
        raise not_started(self._kind)


def made_by_start(client: Client, *names: str) -> None:
    """Let objects of a class raise `KafkaError` for these attributes until `start` has made them."""
    for name in names:
        setattr(client, name, _MadeByStart(client.__name__))


class OfOneProcess:
    """A base of clients, which have threads, sockets and positions that no copy can have."""

    def __reduce__(self) -> NoReturn:
        kind = type(self).__name__
        raise TypeError(f"{kind} objects cannot be copied or pickled: create one where it is used, such as in each process.")
