"""The files of one segment: batches, indexes and notes about them, and their retention and replacement."""
