"""The machines of the clients: connection, metadata, producer, fetcher, group membership, admin.

Bytes, time and answers come in as arguments. Nothing here knows sockets, event loops or threads: `ottla.net.client` drives the
machines.
"""
