"""CRC-32C from the compiled part of the package `crc32c`.

The package itself also loads a parser of e-mails to know its own version, and a command: a sixth of the start of a client.
"""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from typing import TYPE_CHECKING, Any


def _load() -> Any:
    """Return the compiled module, as the package would import it; the package if it has another layout."""
    name = "crc32c._crc32c"
    if name in sys.modules:
        return sys.modules[name]
    package = find_spec("crc32c")
    spec = None if package is None else PathFinder.find_spec(name, package.submodule_search_locations)
    if spec is None or spec.loader is None:
        import crc32c

        return crc32c
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if TYPE_CHECKING:
    from crc32c import crc32c
else:
    crc32c = _load().crc32c

__all__ = ["crc32c"]
