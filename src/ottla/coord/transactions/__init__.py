"""The coordinator of transactions (KIP-98, KIP-360, KIP-890): who writes under a transactional id, into what, and how it ends."""
