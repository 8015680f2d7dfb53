from typing import Any

class Plan:
    def __init__(self, cls: type, fields: list[Any], tags: list[Any], blanks: list[Any], flexible: bool) -> None: ...
