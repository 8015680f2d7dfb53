"""The server on asyncio: listeners, connections, the loop's time for each connection, and limits.

It does not interpret requests.
"""
