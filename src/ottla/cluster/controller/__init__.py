"""What the controller of a cluster knows and decides: who leads, what is deleted, and what to tell whom. All of it is pure."""
