"""The machines of the client: connection, metadata, producer, fetcher, group membership, admin.

Bytes, time and answers come in as arguments.

Nothing here knows sockets, loops or threads; `ottla.net.client` drives these machines over real ones.
"""
