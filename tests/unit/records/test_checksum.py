"""CRC-32C is that of the package, whose other modules a client does not load."""

from __future__ import annotations

import subprocess
import sys

import crc32c

from ottla.records import checksum


def test_the_checksum_is_that_of_the_package() -> None:
    assert checksum.crc32c(b"123456789") == 0xE3069283 == crc32c.crc32c(b"123456789")


def test_a_batch_needs_no_parser_of_emails() -> None:
    code = "import sys, ottla.records.batches.header, crc32c as package; assert package.crc32c(b'') == 0"
    loads = "import sys, ottla.records.batches.header; assert not {'email', 'argparse', 'importlib.metadata'} & set(sys.modules)"
    for statement in (loads, code):
        assert subprocess.run([sys.executable, "-c", statement], check=False).returncode == 0
