"""The command `ottla consume`, which prints the records of topics."""
