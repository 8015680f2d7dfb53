"""Encodes and decodes messages: declarations become plans, which compiled kernels run.

Where there is no compiler, Python is generated for each message and version instead (`reading`, `writing`). Both do the same.
Knows declarations and bytes. May not know which APIs there are, nor what a message means.
"""
