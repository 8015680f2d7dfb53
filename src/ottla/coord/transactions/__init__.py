"""The coordinator of transactions (KIP-98, KIP-360, KIP-890): the producer of each transactional id, and its transaction."""
