"""The consumers, and the drivers of their fetches and group membership."""
