"""Record batches of magic 2: headers, columns, building, checks and recompression."""
