"""The `ottla` command: thin, each command is a call on `ottla.net`."""
