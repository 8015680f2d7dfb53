"""`ottla doctor`: what works and what does not between this machine and a cluster, a line for each check."""
