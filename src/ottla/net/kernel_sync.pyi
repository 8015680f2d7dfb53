from array import array
from typing import Final

COMPILED: bool
NAMELESS: Final = -1

def sync_each(handles: array[int], outcomes: array[int]) -> int: ...
