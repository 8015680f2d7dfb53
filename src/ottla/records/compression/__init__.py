"""The codecs of records, each within limits of memory."""
