"""The client over sockets: clients on asyncio, blocking clients that run them on a thread, and parts for Spark tasks."""
