"""The attacks, one file for each family."""
