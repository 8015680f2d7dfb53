"""`ottla bench`: load on a topic of any broker, with rates and percentiles."""
