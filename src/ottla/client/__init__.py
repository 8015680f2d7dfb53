"""The state machines of the clients: connection, metadata, producer, fetcher, group membership, admin.

Bytes, times and answers are passed in as arguments. Nothing here uses sockets, event loops or threads: `ottla.net.client` connects
the machines to brokers.
"""
