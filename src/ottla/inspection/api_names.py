"""The lookup of APIs and other messages by their names, in the spellings that people use."""

from __future__ import annotations

from difflib import get_close_matches

from ottla.wire.apis import API, Api
from ottla.wire.schema import END, Message
from ottla.wire.stored_messages import others


class NoSuchName(ValueError):
    """Raised if no API has the given name, or if the API lacks the given version. The message says what to write instead."""


def find_api(name: str) -> Api:
    """Find an API by name ("Fetch", "fetch", "list_offsets", "FetchRequest") or key ("1"). Raises `NoSuchName`."""
    if name.lstrip("-").isdecimal() and int(name) in API:
        return API[int(name)]
    wanted = _folded(name)
    for api in API.values():
        if wanted in (api.name.lower(), f"{api.name}Request".lower(), f"{api.name}Response".lower()):
            return api
    raise NoSuchName(_sentence(name, [api.name for api in API.values()]))


def find(name: str) -> Api | type[Message]:
    """Find an API, or a message that is neither a request nor a response, such as a header. Raises `NoSuchName`."""
    try:
        return find_api(name)
    except NoSuchName:
        for other in others().values():
            if other.__name__.lower() == _folded(name):
                return other
        raise NoSuchName(_sentence(name, [*(api.name for api in API.values()), *others()])) from None


def check_version(name: str, valid: range, version: int | None) -> None:
    if version is not None and version not in valid:
        raise NoSuchName(f"{name} has no version {version}: its versions are {spec(valid)}.")


def spec(versions: range) -> str:
    """Return a range of versions in the notation of declarations: "3+", "0-12", "4", "none"."""
    if not versions:
        return "none"
    if versions.stop == END:
        return f"{versions.start}+"
    low, high = versions.start, versions.stop - 1
    return str(low) if low == high else f"{low}-{high}"


def _folded(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


def _sentence(name: str, known: list[str]) -> str:
    by_folded = {one.lower(): one for one in known}
    near = [by_folded[found] for found in get_close_matches(_folded(name), by_folded, n=3, cutoff=0.5)]
    hint = f"did you mean {' or '.join(near)}?" if near else "`ottla protocol` lists all."
    return f"There is no API {name!r}: {hint}"
