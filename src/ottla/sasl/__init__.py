"""SASL: a module for each mechanism, with state machines for server and client. They process bytes, and use no sockets.

`mechanism` has the protocols that all machines implement. Nonces, credentials and the time are arguments.
"""
