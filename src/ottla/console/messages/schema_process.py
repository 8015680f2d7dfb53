"""JSON that is encoded with a schema in a process of its own, which ends at a deadline.

A JSON Schema has regular expressions, which Python matches without a pause: one of a stranger's schema could hold the console, and
with it a broker in the same process, for hours.
"""

from __future__ import annotations

import asyncio
import pickle
import sys
from asyncio.subprocess import PIPE

from ottla.errors import KafkaError
from ottla.schemas.libraries import UnfitValue
from ottla.schemas.schema import ValueSchema
from ottla.schemas.values import encoder_of

ENCODED, UNFIT, FAILED = b"+", b"-", b"!"


async def encode_apart(schema: ValueSchema, text: bytes, seconds: float) -> bytes:
    """Return a JSON text as a value of a schema. Raises `UnfitValue`, and `KafkaError` for a bad schema or at the deadline."""
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", __name__, stdin=PIPE, stdout=PIPE)
    try:
        async with asyncio.timeout(seconds):
            answer, _ = await process.communicate(pickle.dumps((schema, text)))
    except TimeoutError:
        raise KafkaError(f"The check by the schema has not ended within {seconds:g} s: simplify its regular expressions.") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    kind, rest = answer[:1], answer[1:]
    if kind == ENCODED:
        return rest
    if kind == UNFIT:
        raise UnfitValue(rest.decode())
    raise KafkaError(rest.decode() or "The check by the schema has failed: the console's log has the reason.")


def main() -> None:
    """Encode what standard input has, and write the result to standard output."""
    schema, text = pickle.loads(sys.stdin.buffer.read())
    try:
        answer = ENCODED + encoder_of(schema)(text)
    except UnfitValue as error:
        answer = UNFIT + str(error).encode()
    except KafkaError as error:
        answer = FAILED + str(error).encode()
    sys.stdout.buffer.write(answer)


if __name__ == "__main__":
    main()
