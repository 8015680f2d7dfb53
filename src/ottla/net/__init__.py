"""The outside world made real: asyncio servers, the disk, the clock, the registry; knows no protocol semantics."""
