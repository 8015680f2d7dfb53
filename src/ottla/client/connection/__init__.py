"""One connection of a client as a state machine: framing, versions, logins, and the cluster's metadata."""
