"""Looks at bytes and declarations for people: where a fault lies, what a frame holds, what the protocol is.

Independent of the codec, so that tests can hold one against the other. Slow: no good message passes through here.
"""
