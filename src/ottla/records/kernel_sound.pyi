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
def pass_alike(view: memoryview, mask: int, kind: int, check_crcs: bool) -> tuple[int, int, int, bool]: ...
