COMPILED: bool

def sound(
    view: memoryview,
    at: int,
    end: int,
    left: int,
    next_offset: int,
    until_offset: int,
    latest_epoch: int,
) -> tuple[int, int, int, int, int, int]: ...
