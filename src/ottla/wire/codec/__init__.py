"""The codec of messages: `plans` makes plans of declarations, and readers and writers follow the plans.

Compiled kernels (`kernel_read`, `kernel_write`) move values between bytes and the slots of objects, as only C can. Without a
compiler, `plain` generates Python functions from the same plans; the tests run both. The codec uses declarations and bytes. It must
not depend on the list of APIs, nor on what a message means.
"""
