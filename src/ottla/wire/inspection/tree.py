"""A message as a tree of named values and their positions; a broken one is shown up to its fault.

Knows the walk of the grammar. Does not know what bytes and records within a message mean, nor how a tree is printed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from ottla.wire.inspection.walk import Leaf, seen
from ottla.wire.schema import Field, Message, Struct

LEAF: Final = "leaf"
STRUCT: Final = "struct"
ARRAY: Final = "array"

_INDEX: Final = re.compile(r"\[\d+\]")


@dataclass(slots=True)
class ValueNode:
    """One value: a leaf, a struct of named nodes, or an array of nodes. Its bytes are `start` to `end`, -1 where it has none.

    `note` explains a value; of a `folded` node it stands for all that is below, where lines are dear. `field` is the declaration of
    a leaf, where it has one.
    """

    name: str
    kind: str
    start: int = -1
    end: int = -1
    value: Any = None
    note: str = ""
    field: Field | None = None
    children: list[ValueNode] | None = None
    folded: bool = False

    def add(self, node: ValueNode) -> ValueNode:
        """Put a node below this one, and give it back."""
        if self.children is None:
            self.children = []
        self.children.append(node)
        return node

    @property
    def below(self) -> list[ValueNode]:
        return self.children or []


def tree_of(
    cls: type[Message], version: int, buf: bytes | bytearray | memoryview, position: int = 0, *, whole: bool = True
) -> tuple[ValueNode, str]:
    """The message that begins at `position`, and in one sentence what is wrong with it; empty where nothing is."""
    found = seen(cls, version, buf, position, whole=whole)
    root = ValueNode(cls.__name__, STRUCT, position, found.end, children=[])
    branches: dict[str, ValueNode] = {"": root}
    for leaf in found.leaves:
        _grow(branches, cls, leaf)
    for path, (start, count) in found.arrays.items():
        if path in branches:
            branches[path].start = start
            branches[path].note = "" if len(branches[path].below) == count else f"{len(branches[path].below)} of {count}"
    return root, str(found.fault) if found.fault else ""


def plain_path(path: str) -> str:
    """A path without its indices: "topics.partitions"."""
    return _INDEX.sub("", path)


def _grow(branches: dict[str, ValueNode], cls: type[Struct], leaf: Leaf) -> None:
    parent, name = parent_of(branches, leaf.path, leaf.start)
    node = ValueNode(name, LEAF, leaf.start, leaf.end, leaf.value, field=_field(cls, leaf.path))
    if isinstance(leaf.value, list):
        node = ValueNode(name, ARRAY, leaf.start, leaf.end, children=[])
    parent.add(node)


def parent_of(branches: dict[str, ValueNode], path: str, start: int) -> tuple[ValueNode, str]:
    """The node that a path's last step hangs on, made where it is not there yet, and that step's name."""
    head, name = _last_step(path)
    if head not in branches:
        above, own = parent_of(branches, head, start)
        branches[head] = above.add(ValueNode(own, ARRAY if name.startswith("[") else STRUCT, start, start, children=[]))
    return branches[head], name


def _last_step(path: str) -> tuple[str, str]:
    """ "a.b[3]" as ("a.b", "[3]"), "a.b" as ("a", "b"); the number of an unknown tag is part of its name."""
    if path.endswith("]") and "unknown_tags[" not in path:
        at = path.rindex("[")
        return path[:at], path[at:]
    head, _, name = path.rpartition(".")
    return head, name


def _field(cls: type[Struct], path: str) -> Field | None:
    """The declaration of the field that a path leads to; None for unknown tags."""
    owner: type[Struct] | None = cls
    found: Field | None = None
    for step in plain_path(path).split("."):
        found = next((f for f in owner.WIRE.fields if f.name == step), None) if owner else None
        owner = found.of if found else None
    return found
