"""The state of idempotent and transactional producers in one log, and its snapshots on disk."""
