"""The server on asyncio: listeners, connections, turns on the loop, and limits. The meaning of requests is unknown here."""
