"""The registry of a lone broker, kept twice on its own disk so that damage to either copy is found and repaired.

Uses only the disk port.
"""
