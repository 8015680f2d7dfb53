"""Single changes of a registry, as tests make them."""

from __future__ import annotations

from ottla.ports import NEW, Change, Registry


def make_entry(registry: Registry, path: str, value: bytes = b"", *, ephemeral: bool = False) -> None:
    registry.commit([Change(path, value, NEW, ephemeral)])


def put_entry(registry: Registry, path: str, value: bytes, *, version: int | None = None) -> None:
    registry.commit([Change(path, value, version)])


def remove_entry(registry: Registry, path: str, *, version: int | None = None) -> None:
    registry.commit([Change(path, None, version)])
