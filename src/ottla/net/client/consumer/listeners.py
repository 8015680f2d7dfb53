"""Rebalance listeners: how they are called, and which methods of their own consumer they must not call.

A listener may commit, seek and query positions. It must not poll, close or change the subscription, because the group waits for the
listener.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import ParamSpec

from ottla.client.errors import KafkaError

Arguments = ParamSpec("Arguments")


class ListenerCall:
    """A call of a consumer's listener. Tasks and threads that the listener starts share it.

    When it has ended, they may call all methods.
    """

    def __init__(self, consumer: object) -> None:
        self._consumer = consumer
        self._is_running = True

    def end(self) -> None:
        self._is_running = False

    def is_of(self, consumer: object) -> bool:
        return self._is_running and self._consumer is consumer


_CALL: ContextVar[ListenerCall | None] = ContextVar("ottla_listener_call", default=None)


async def call_listener(
    consumer: object, listener: Callable[Arguments, Awaitable[None] | None], *given: Arguments.args, **named: Arguments.kwargs
) -> None:
    """Call a listener of `consumer`, and await what it returns. Raises its exceptions."""
    call = ListenerCall(consumer)
    token = _CALL.set(call)
    try:
        result = listener(*given, **named)
        if inspect.isawaitable(result):
            await result
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise _as_failure(error) from error  # of the listener itself: this task would seem to be cancelled, and end silently
    finally:
        call.end()
        _CALL.reset(token)


def refuse_in_listener(consumer: object, name: str) -> None:
    """Raise `KafkaError` if a listener of this consumer calls its method `name`, which would wait for the listener itself."""
    call = _CALL.get()
    if call is not None and call.is_of(consumer):
        raise KafkaError(f"{name}() cannot be called by a callback of the same consumer: call it after the callback.")


def _as_failure(error: BaseException) -> RuntimeError:
    """Return an ordinary exception for one that controls generators or tasks, and that a listener has raised by itself."""
    return RuntimeError(f"A listener raised {type(error).__name__}: catch it in the listener.")


def on_thread(
    listener: Callable[Arguments, Awaitable[None] | None] | None,
) -> Callable[Arguments, Awaitable[None] | None] | None:
    """Return a listener that runs on its own thread.

    There it can call the blocking consumer, which needs the loop for each call.
    """
    if not callable(listener) or inspect.iscoroutinefunction(listener):
        return listener  # the asynchronous consumer refuses objects of other types

    def call(*given: Arguments.args, **named: Arguments.kwargs) -> Awaitable[None] | None:
        try:
            return listener(*given, **named)
        except (StopIteration, GeneratorExit, asyncio.CancelledError) as error:
            raise _as_failure(error) from error  # a future accepts no StopIteration: it would never be done

    async def run(*given: Arguments.args, **named: Arguments.kwargs) -> None:
        result = await asyncio.to_thread(call, *given, **named)
        if inspect.isawaitable(result):
            await result

    return run
