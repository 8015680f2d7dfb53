"""SASL: one module for each mechanism, with state machines for server and client. They work on bytes and import no sockets.

`mechanism` has the protocols that all of them implement. Nonces, credentials and the time are arguments.
"""
