from typing import Any

from ottla.wire.codec.kernel import CompiledPlan

class Reader:
    def __init__(self, plan: CompiledPlan) -> None: ...
    def read(self, buf: bytes | bytearray | memoryview, position: int) -> Any: ...
