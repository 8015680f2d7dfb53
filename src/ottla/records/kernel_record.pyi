from typing import TypeVar

from ottla.ports import Buffer
from ottla.records.kernel import Ints, Longs

R = TypeVar("R")

COMPILED: bool

class CompiledRecord: ...
class CompiledConsumerRecord(CompiledRecord): ...

def make_records(
    record_type: type[R],
    where: tuple[str, int] | None,
    buf: Buffer,
    offsets: Longs,
    timestamps: Longs,
    spans: Ints,
    first: int,
    end: int,
    timestamp_type: int,
) -> list[R]: ...
