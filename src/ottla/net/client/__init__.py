"""The client over real sockets: an asyncio driver, a blocking facade over it, and a small synchronous path for Spark tasks."""
