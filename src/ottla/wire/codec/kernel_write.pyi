from typing import Any

from ottla.wire.codec.kernel import Plan
from ottla.wire.schema import Message

class Writer:
    def __init__(self, plan: Plan) -> None: ...
    def write(self, msg: Message, parts: list[Any], cuts: list[int]) -> None: ...
