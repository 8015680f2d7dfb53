"""The real places of directories in several log directories. The real and the simulated disk resolve paths by this table.

A path begins with a name at the top of the data directory, such as `topic-0`. The table has the names that are in another log
directory. All other names are in the data directory.
"""

from __future__ import annotations


def parent(path: str) -> str:
    """Return the directory part of a path, without the last name."""
    return path.rpartition("/")[0]


def joined(path: str, name: str) -> str:
    """Return the path of the file or directory `name` in the directory `path`."""
    return f"{path}/{name}" if path else name


class NamePlaces:
    """A table of top-level names, each with the log directory that really contains it."""

    def __init__(self) -> None:
        self._real: dict[str, str] = {}

    def real(self, path: str) -> str:
        """Return the real path of a file or directory."""
        name, slash, rest = path.partition("/")
        place = self._real.get(name)
        return path if place is None else place + slash + rest

    def above(self, path: str) -> str:
        """Return the real path of the directory that contains `path`."""
        place = self._real.get(path)
        return parent(path if place is None else place)

    def put(self, name: str, directory: str) -> None:
        """Record that `name` is in this log directory; "" is the data directory."""
        self._set(name, joined(directory, name))

    def target(self, path: str, to: str) -> str:
        """Return the real path that `path` gets by a rename. A name at the top remains in its log directory."""
        return self.real(to) if "/" in path or "/" in to else joined(parent(self.real(path)), to)

    def rename(self, path: str, to: str) -> None:
        target = self.target(path, to)
        self._real.pop(path, None)
        if "/" not in to:
            self._set(to, target)

    def exchange(self, name: str, copy: str) -> None:
        """Record that the directory of `copy` is now that of `name`, and that `copy` means the former directory of `name`."""
        former, target = self.real(name), self.target(copy, name)
        self._set(copy, former)
        self._set(name, target)

    def remove(self, path: str) -> None:
        """Record that a directory was removed."""
        self._real.pop(path, None)

    def clear(self) -> None:
        self._real.clear()

    def _set(self, name: str, path: str) -> None:
        if name == path:
            self._real.pop(name, None)
        else:
            self._real[name] = path
