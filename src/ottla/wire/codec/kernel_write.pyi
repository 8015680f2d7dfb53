from typing import Any

from ottla.wire.codec.kernel import CompiledPlan
from ottla.wire.schema import Message

class Writer:
    def __init__(self, plan: CompiledPlan) -> None: ...
    def write(self, msg: Message, parts: list[Any], cuts: list[int]) -> None: ...
