"""Message sets of magic 0 and 1: their conversion from and to batches of magic 2."""
