"""What kafka-python of 2015 needs to be imported by a Python of today: `async` was an ordinary name then."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType

NAMED_ASYNC = re.compile(rb"\basync\b")


class RenamingLoader(SourceFileLoader):
    """Loads a module in whose source `async` is called `async_`."""

    def get_data(self, path: str) -> bytes:
        data = super().get_data(path)
        return NAMED_ASYNC.sub(b"async_", data) if path.endswith(".py") else data

    def path_stats(self, path: str) -> dict[str, float]:
        raise OSError  # so that no compiled file is kept or believed


class RenamingFinder:
    """Finds the modules of the package `kafka`, and of no other."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name.partition(".")[0] != "kafka":
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is None or spec.origin is None:
            return spec
        found = importlib.util.spec_from_file_location(name, spec.origin, loader=RenamingLoader(name, spec.origin))
        assert found is not None
        found.submodule_search_locations = spec.submodule_search_locations
        return found


sys.meta_path.insert(0, RenamingFinder())
