"""The share consumers, and the drivers of their membership and share sessions."""
