"""The machines of one broker, composed; knows the pure packages below it, never asyncio, sockets or files."""
