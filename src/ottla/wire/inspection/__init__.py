"""Looks at bytes for people: where a fault lies, what a frame holds.

Independent of the codec, so that tests can hold one against the other. Slow: no good message passes through here.
"""
