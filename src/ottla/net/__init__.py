"""The adapters to the real world: asyncio servers, the disk, the clock, the registry. They do not depend on what requests mean."""
