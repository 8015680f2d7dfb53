"""The producers, and the drivers of their batches and transactions."""
