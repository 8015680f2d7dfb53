"""Who may come in and do what: authentication of connections, principals, authorization. Knows no sockets and no TLS."""
