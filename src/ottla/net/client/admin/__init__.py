"""The admin clients. The modules decide which broker gets each request."""
