from ottla.wire.codec.plans import StructPlan

class CompiledPlan:
    def __init__(self, plan: StructPlan) -> None: ...
