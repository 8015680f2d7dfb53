from typing import Any

from ottla.wire.codec.kernel import Plan

class Reader:
    def __init__(self, plan: Plan) -> None: ...
    def read(self, buf: bytes | bytearray | memoryview, position: int) -> Any: ...
