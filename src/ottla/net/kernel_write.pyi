from array import array
from mmap import mmap

COMPILED: bool

def serve_writes(
    wakes: int, answers: int, handle: int, alignment: int, is_direct: bool, buffer: mmap, request: array[int]
) -> None: ...
