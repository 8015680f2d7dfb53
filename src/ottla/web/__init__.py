"""The common parts of Ottla's HTTP servers: addresses, a server on its own thread and loop, and guards around an application."""
