"""Coordinators as pure machines: groups and committed offsets; knows wire messages, never logs, brokers, sockets or clocks."""
