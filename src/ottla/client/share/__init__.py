"""The share consumer as state machines: membership, sessions with leaders, acquired records, acknowledgements (KIP-932)."""
