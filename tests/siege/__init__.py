"""Attacks on a broker while an innocent client goes on writing: `make siege`."""
