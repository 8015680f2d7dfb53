"""SASL: one module for each mechanism, with a server's and a client's machine. Knows bytes, never a socket, a broker or a client.

`mechanism` says what all of them have in common. Nonces, credentials and the time come in as arguments.
"""
