"""Coordinators as pure machines, and the runtime they share. Knows wire messages, never logs, brokers, sockets or clocks."""
