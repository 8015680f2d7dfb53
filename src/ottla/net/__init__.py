"""The adapters to the real world: asyncio servers, the disk, the clock, the registry. The meaning of requests is unknown here."""
