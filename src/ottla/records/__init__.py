"""Records: batches (magic 2), message sets (magic 0 and 1), codecs, conversion between formats, and columns.

Knows the bytes that records are stored and sent in. May not know logs, brokers, sockets or files.
"""

from __future__ import annotations
