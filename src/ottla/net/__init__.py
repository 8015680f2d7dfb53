"""The real world: asyncio servers, the disk, the clock, the registry. Knows nothing of what requests mean."""
