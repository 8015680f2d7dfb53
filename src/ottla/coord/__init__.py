"""Coordinators as pure machines, and their runtime. The package uses wire messages, never logs, brokers, sockets or clocks."""
