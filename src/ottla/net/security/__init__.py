"""TLS contexts, and the verification of OAuth tokens and Kerberos tickets with the machine's keys and libraries."""
