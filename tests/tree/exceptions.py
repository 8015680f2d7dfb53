"""What the tests of the tree let pass, each with its reason: what is long, and what is there for tests alone."""

from __future__ import annotations

LONG: dict[str, str] = {
    "src/ottla/net/client/admin/admin.py": "generated: one method for each call of the asynchronous admin client",
}
"""path, or path::name of a function -> why it is one piece though it is longer than `test_shape.py` allows."""

FOR_TESTS: dict[str, str] = {
    "src/ottla/kafka07/records/messages.py::message_set": "what other clients of Kafka 0.7 send is what tests play",
    "src/ottla/records/kernel_compact.py::hash_key": "the kernel's hash is held against its definition",
    "src/ottla/records/message_sets/legacy.py::write_message_set": "tests play clients of Kafka 0.8 to 0.10, with message sets",
    "src/ottla/wire/framing.py::decode_request": "the inverse of what clients use, for servers that tests play",
    "src/ottla/net/client/producer/blocking_producer.py::BlockingProducer.send_table": "users of `Producer` call it",
    "src/ottla/monitoring/server.py::MetricsServer": "programs with a broker of their own use it",
    "src/ottla/kafka07/wire.py::encode_response": "the inverse of what is used, for tests of both",
}
"""path::name -> why it is there though only tests, benchmarks and examples use it."""

NOT_REWRITTEN = ("bench", "examples")
"""Folders whose docstrings are not rewritten yet: those of functions open with anything. The list shrinks."""
