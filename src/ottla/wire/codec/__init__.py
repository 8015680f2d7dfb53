"""The codec of messages: `plans` converts declarations to plans, and readers and writers follow the plans.

Compiled kernels (`kernel_read`, `kernel_write`) move values between bytes and the slots of objects, which only C code can do.
Without a compiler, `plain` generates Python functions from the same plans. The tests run both. The codec uses declarations and
bytes. It must not depend on the list of APIs, or on the meaning of a message.
"""
