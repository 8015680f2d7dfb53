"""Encodes and decodes messages: declarations become plans (`plans`), and plans are run.

Compiled kernels run them (`kernel_read`, `kernel_write`): they move values between bytes and the slots of objects, as only C can.
Where there is no compiler, `plain` turns the same plans into Python functions; the tests run both. Knows declarations and bytes.
May not know which APIs there are, nor what a message means.
"""
