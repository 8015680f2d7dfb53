"""TLS contexts, and the verification of tokens and tickets with the machine's keys and libraries."""
