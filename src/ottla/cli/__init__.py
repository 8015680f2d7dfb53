"""The `ottla` command. Thin: each command calls `ottla.net`, `ottla.log` or `ottla.wire`."""
