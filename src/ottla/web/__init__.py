"""What the HTTP servers of Ottla share: addresses, a server on its own thread and loop, and guards around an application."""
