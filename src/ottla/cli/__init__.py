"""The `ottla` command. Each command only parses arguments and calls `ottla.net`, `ottla.log` or `ottla.wire`."""
