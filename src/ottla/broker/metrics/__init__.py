"""The metrics of a broker: their declarations, the readers that find their values, and the text that monitoring systems read.

Counting is elsewhere, next to the events. Nothing here runs until a snapshot is requested.
"""
