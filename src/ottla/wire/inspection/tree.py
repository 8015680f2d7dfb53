"""A message as a tree of named values and their positions. The tree of a malformed message ends at its fault.

The module uses `walk`. It does not decode the contents of bytes and records fields, and does not print trees.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from ottla.wire.inspection.walk import Leaf, read_seen
from ottla.wire.schema import Field, Message, Struct

LEAF: Final = "leaf"
STRUCT: Final = "struct"
ARRAY: Final = "array"

_INDEX: Final = re.compile(r"\[\d+\]")


@dataclass(slots=True)
class ValueNode:
    """One value: a leaf, a struct of named nodes, or an array of nodes.

    Its bytes are from `start` to `end`; both are -1 if it has no bytes. `note` explains the value. To save lines, a `folded` node
    shows its `note` instead of its children. `field` is the declaration of a leaf, or None.
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
    """Return the message that begins at `position` as a tree, and one sentence about its fault, empty if it has no fault."""
    found = read_seen(cls, version, buf, position, whole=whole)
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
    """Return a path without its indices, such as "topics.partitions"."""
    return _INDEX.sub("", path)


def _grow(branches: dict[str, ValueNode], cls: type[Struct], leaf: Leaf) -> None:
    parent, name = parent_of(branches, leaf.path, leaf.start)
    node = ValueNode(name, LEAF, leaf.start, leaf.end, leaf.value, field=_field(cls, leaf.path))
    if isinstance(leaf.value, list):
        node = ValueNode(name, ARRAY, leaf.start, leaf.end, children=[])
    parent.add(node)


def parent_of(branches: dict[str, ValueNode], path: str, start: int) -> tuple[ValueNode, str]:
    """Return the parent node for the last step of a path, and the name of this step. Create missing parents."""
    head, name = _last_step(path)
    if head not in branches:
        above, own = parent_of(branches, head, start)
        branches[head] = above.add(ValueNode(own, ARRAY if name.startswith("[") else STRUCT, start, start, children=[]))
    return branches[head], name


def _last_step(path: str) -> tuple[str, str]:
    """Split "a.b[3]" into ("a.b", "[3]"), and "a.b" into ("a", "b"). The number of an unknown tag stays part of its name."""
    if path.endswith("]") and "unknown_tags[" not in path:
        at = path.rindex("[")
        return path[:at], path[at:]
    head, _, name = path.rpartition(".")
    return head, name


def _field(cls: type[Struct], path: str) -> Field | None:
    """Return the declaration of the field at a path; None for unknown tags."""
    owner: type[Struct] | None = cls
    found: Field | None = None
    for step in plain_path(path).split("."):
        found = next((f for f in owner.WIRE.fields if f.name == step), None) if owner else None
        owner = found.of if found else None
    return found
