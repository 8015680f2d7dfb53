"""Coordinators as machines without input or output, and their runtime. It uses wire messages, but no logs, brokers or clocks."""
