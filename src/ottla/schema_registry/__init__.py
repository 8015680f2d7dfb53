"""A schema registry with the HTTP API and the `_schemas` topic of Confluent's: a pure machine, and a server around it."""
