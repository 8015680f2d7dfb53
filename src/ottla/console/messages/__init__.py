"""Messages of topics for the console: how they are found, read in slices, and shown."""
