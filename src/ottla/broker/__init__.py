"""The state machines of one broker, composed. Depends on the pure packages below it, never on asyncio, sockets or files."""
