"""`ottla decode`: frames and network captures as readable trees."""
