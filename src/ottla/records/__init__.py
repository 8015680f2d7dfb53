"""Records: batches (magic 2), message sets (magic 0 and 1), codecs, conversion between formats, and columns.

The package works on the bytes in which records are stored and sent. It must not depend on logs, brokers, sockets or files.
"""

from __future__ import annotations
