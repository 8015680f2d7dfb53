"""Authentication of connections, principals and authorization. Contains no sockets and no TLS."""
