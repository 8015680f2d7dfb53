"""The registry of one broker, kept twice on its own disk so that damage of either is found and mended. Knows the disk port only."""
