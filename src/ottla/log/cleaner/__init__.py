"""The log cleaner: which part of a log is dirty, and the compaction of it (KIP-58, KIP-534)."""
