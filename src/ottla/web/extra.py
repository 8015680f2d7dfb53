"""The check that the optional packages of the HTTP servers are installed, before modules that need them are imported."""

from __future__ import annotations

from importlib.util import find_spec

from ottla.errors import SettingError

PACKAGES = ("starlette", "uvicorn", "jinja2")


def require_packages(purpose: str) -> None:
    """Raise `SettingError` unless the packages of the extra `console` are installed. `purpose` begins the sentence."""
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        raise SettingError(f"{purpose} needs {', '.join(missing)}: pip install 'ottla[console]'.")
