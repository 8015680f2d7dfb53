"""The inspection of bytes for people: the position of a fault, the contents of a frame.

It shares no code with the codec, so that tests can compare the two. It is slow, and used for malformed input and display only.
"""
