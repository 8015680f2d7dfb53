"""The inspection of bytes for people: the position of a fault, the contents of a frame.

The package shares no code with the codec, so that tests can compare the two. It is slow, and used only for malformed input and
for display.
"""
