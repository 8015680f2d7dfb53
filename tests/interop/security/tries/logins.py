"""Tries to log in without a password: by names that are nearly right, messages of others, and frames in a wrong order."""

from __future__ import annotations

import struct
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator

from ottla.sasl.scram import ALGORITHMS, SHA_256, SHA_512, Algorithm, xor
from ottla.wire.apis import API
from tests.interop.security.tries.row import Step, Try, drained, entering
from tests.support.fort import PASSWORDS, Fort, Line

ALICE = PASSWORDS["alice"]
MALLORY = PASSWORDS["mallory"]
NAMES = {
    "in capitals": "ALICE",
    "with one capital": "Alice",
    "with a blank before": " alice",
    "with a blank behind": "alice ",
    "with a line end": "alice\n",
    "with a soft hyphen, which SASLprep takes out": "al\u00adice",
    "with a space of no width": "alice\u200b",
    "with a mark of byte order": "\ufeffalice",
    "in wide letters, which NFKC makes narrow": "\uff41\uff4c\uff49\uff43\uff45",
    "with a Cyrillic letter": "\u0430lice",
    "with a Roman numeral": "al\u2170ce",
    "with a dotless i": "al\u0131ce",
    "with a letter from right to left": "alice\u200f",
    "as a principal": "User:alice",
    "as an option of the login module": "user_alice",
    "its beginning": "alic",
    "with more behind": "alice2",
    "in two parts": "alice/admin",
    "as a pattern": "*",
    "as the default user": "<default>",
    "written in percents": "al%69ce",
}
"""Names that are not alice's, though some would make them so."""


def said(data: bytes) -> Step:
    return lambda fort, line: line.token(data)


def plain(name: str, password: str, acts_as: str = "") -> tuple[Step, Step]:
    return begun("PLAIN"), said(f"{acts_as}\0{name}\0{password}".encode())


def begun(mechanism: str, version: int = 1) -> Step:
    return lambda fort, line: line.handshake(mechanism, version)


def frame(data: bytes) -> Step:
    return lambda fort, line: line.say(data)


def raw(data: bytes) -> Step:
    return lambda fort, line: line.send(data)


def until_the_end(fort: Fort, line: Line) -> None:
    drained(line)


def asked(key: int, version: int, **values: object) -> Step:
    return lambda fort, line: line.ask(key, version, **values)


def rested(seconds: float) -> Step:
    return lambda fort, line: time.sleep(seconds)


def bare(data: bytes) -> Step:
    """A token without a request around it."""

    def step(fort: Fort, line: Line) -> None:
        line.say(data)
        line.heard.append(f"{len(line.frame())} bytes")

    return step


def plain_tries() -> Iterator[Try]:
    def row(name: str, data: bytes) -> Try:
        return Try("PLAIN", name, entering(begun("PLAIN"), said(data)), "0 58 closed")

    yield row("alice with a wrong password", b"\0alice\0guess")
    yield row("alice with mallory's password", f"\0alice\0{MALLORY}".encode())
    yield row("mallory with alice's password", f"\0mallory\0{ALICE}".encode())
    yield row("alice with the beginning of her password", f"\0alice\0{ALICE[:-1]}".encode())
    yield row("alice with more than her password", f"\0alice\0{ALICE} ".encode())
    yield row("alice with her password and a zero byte", f"\0alice\0{ALICE}\0".encode())
    yield row("alice with her password in capitals", f"\0alice\0{ALICE.upper()}".encode())
    yield row("alice without a password", b"\0alice\0")
    yield row("nobody with alice's password", f"\0\0{ALICE}".encode())
    yield row("nobody at all", b"\0\0")
    yield row("nothing", b"")
    yield row("one zero byte", b"\0")
    yield row("a name alone", b"alice")
    yield row("no identity to act as", f"alice\0{ALICE}".encode())
    yield row("a hundred zero bytes", bytes(100))
    yield row("mallory, to act as alice", f"alice\0mallory\0{MALLORY}".encode())
    yield row("mallory, to act as the admin", f"admin\0mallory\0{MALLORY}".encode())
    yield row("mallory, to act as a principal", f"User:alice\0mallory\0{MALLORY}".encode())
    yield row("mallory, to act as himself in capitals", f"MALLORY\0mallory\0{MALLORY}".encode())
    yield row("mallory, to act as a blank", f" \0mallory\0{MALLORY}".encode())
    yield row("password and name changed about", f"\0{ALICE}\0alice".encode())
    yield row("the name as the password", b"\0alice\0alice")
    yield row("bytes that are no UTF-8", b"\0alice\0\xff\xfe")
    yield row("a letter in more bytes than it needs", b"\0\xc1\xa1lice\0" + ALICE.encode())
    yield row("half of a surrogate", b"\0alice\xed\xa0\x80\0" + ALICE.encode())
    yield row("a name of 60 000 bytes", b"\0" + b"a" * 60_000 + b"\0" + ALICE.encode())
    yield row("a password of 60 000 bytes", b"\0alice\0" + b"a" * 60_000)
    yield row("a user in two letters for one", "\0zoe\u0308\0zoe's own word".encode())
    yield row("a message of SCRAM", b"n,,n=alice,r=abc")
    yield row("a message of OAUTHBEARER", b"n,,\x01auth=Bearer x\x01\x01")
    for what, name in NAMES.items():
        yield row(f"alice {what}", f"\0{name}\0{ALICE}".encode())


class Scram:
    """A client's side that may lie. The message's parts are those that a good client says, unless they are given."""

    def __init__(self, name: str, password: str, algorithm: Algorithm = SHA_256, header: str = "n,,", more: str = "") -> None:
        self.algorithm, self.password, self.header = algorithm, password, header
        self.first = f"n={name},r=anybody{more}"

    def open(self, line: Line) -> str:
        line.handshake(self.algorithm.name)
        return line.token((self.header + self.first).encode()).decode()

    def final(self, told: str, *, binding: str | None = None, nonce: str | None = None, iterations: int | None = None) -> bytes:
        parts = dict(part.partition("=")[::2] for part in told.split(","))
        bound = b64encode((self.header if binding is None else binding).encode()).decode()
        without = f"c={bound},r={parts['r'] if nonce is None else nonce}"
        salt = b64decode(parts["s"])
        salted = self.algorithm.salt_password(self.password, salt, iterations or int(parts["i"]))
        key = self.algorithm.hmac(salted, b"Client Key")
        said = f"{self.first},{told},{without}".encode()
        proof = xor(key, self.algorithm.hmac(self.algorithm.hash(key), said))
        return f"{without},p={b64encode(proof).decode()}".encode()


Making = Callable[[Scram, str], bytes]


def scram(made: Scram, final: Making = Scram.final) -> Step:
    def step(fort: Fort, line: Line) -> None:
        told = made.open(line)
        if line.heard[-1] == "0":
            line.token(final(made, told))

    return step


def scram_tries() -> Iterator[Try]:
    wrong = "0 0 58 closed"
    yield Try("SCRAM", "a wrong password", entering(scram(Scram("alice", "guess"))), wrong)
    yield Try("SCRAM", "a user that there is not", entering(scram(Scram("nobody", ALICE))), wrong)
    for algorithm in ALGORITHMS.values():
        for what, name in NAMES.items():
            written = name.replace("=", "=3D").replace(",", "=2C")
            yield Try("SCRAM", f"alice {what}, {algorithm.name}", entering(scram(Scram(written, ALICE, algorithm))), wrong)
    decomposed = Scram("zoe\u0308", PASSWORDS["zo\u00eb"])
    yield Try("SCRAM", "a user in two letters for one", entering(scram(decomposed)), wrong)
    for name, first in FIRSTS.items():
        yield Try("SCRAM", name, entering(begun(SHA_256.name), said(first.encode())), "0 58 closed")
    for name, make in FINALS.items():
        yield Try("SCRAM", name, entering(scram(Scram("alice", ALICE), make)), wrong)
    for name, made in EXTENDED.items():
        yield Try("SCRAM", name, entering(scram(made)), wrong)
    yield Try("SCRAM", "a login that was overheard, said again", entering(_replayed), wrong)
    yield Try("SCRAM", "the last message of a login that was overheard, at first", entering(_last_at_first), "0 58 closed")
    yield Try("SCRAM", "the first message twice", entering(_first_twice), wrong)
    yield Try("SCRAM", "the right proof after a wrong one", entering(_guessed_twice), wrong)
    yield Try("SCRAM", "a proof for SHA-512 under SHA-256", entering(_other_algorithm), wrong)
    yield Try("SCRAM", "mallory's proof for alice's exchange", entering(scram(Scram("alice", MALLORY))), wrong)


FIRSTS = {
    "no name": "n,,n=,r=abc",
    "no attribute for the name": "n,,r=abc",
    "no nonce": "n,,n=alice,r=",
    "a nonce that does not print": "n,,n=alice,r=a\x07c",
    "a name with a comma": "n,,n=ali,ce,r=abc",
    "an escape that is none": "n,,n=alice=00,r=abc",
    "an escape in small letters": "n,,n=ali=2cce,r=abc",
    "nonce before name": "n,,r=abc,n=alice",
    "mallory, to act as alice": "n,a=alice,n=mallory,r=abc",
    "an extension that must be understood": "n,,m=x,n=alice,r=abc",
    "channel binding that is there on the client's side": "y,,n=alice,r=abc",
    "channel binding to the connection": "p=tls-unique,,n=alice,r=abc",
    "channel binding to the certificate": "p=tls-server-end-point,,n=alice,r=abc",
    "no header": "n=alice,r=abc",
    "half a header": "n,n=alice,r=abc",
    "something else than an identity in the header": "n,x=alice,n=alice,r=abc",
    "nothing": "",
    "a zero byte": "\0",
    "a message of PLAIN": f"\0alice\0{ALICE}",
    "the last message without a first": "c=biws,r=abc,p=AAAA",
}
FINALS: dict[str, Making] = {
    "no proof": lambda made, told: made.final(told).rpartition(b",p=")[0],
    "an empty proof": lambda made, told: made.final(told).rpartition(b",p=")[0] + b",p=",
    "a proof of zeros": lambda made, told: made.final(told).rpartition(b",p=")[0] + b",p=" + b64encode(bytes(32)),
    "half a proof": lambda made, told: made.final(told).rpartition(b",p=")[0] + b",p=" + b64encode(bytes(16)),
    "a long proof": lambda made, told: made.final(told).rpartition(b",p=")[0] + b",p=" + b64encode(bytes(64)),
    "a proof that is no Base64": lambda made, told: made.final(told).rpartition(b",p=")[0] + b",p=!!!!",
    "something behind the proof": lambda made, told: made.final(told) + b",x=y",
    "the binding of another header": lambda made, told: made.final(told, binding="y,,"),
    "the binding of a connection": lambda made, told: made.final(told, binding="p=tls-unique,,"),
    "the binding of another identity": lambda made, told: made.final(told, binding="n,a=admin,"),
    "no binding": lambda made, told: made.final(told, binding=""),
    "its own nonce alone": lambda made, told: made.final(told, nonce="anybody"),
    "the broker's nonce alone": lambda made, told: made.final(told, nonce=told[len("r=anybody") :].partition(",")[0]),
    "another nonce": lambda made, told: made.final(told, nonce="anybodyelse"),
    "a nonce with more behind": lambda made, told: made.final(told, nonce=told[2:].partition(",")[0] + "x"),
    "an empty nonce": lambda made, told: made.final(told, nonce=""),
    "one iteration in place of many": lambda made, told: made.final(told, iterations=1),
    "one iteration too few": lambda made, told: made.final(told, iterations=4095),
    "the broker's own message said back": lambda made, told: told.encode(),
    "its first message again": lambda made, told: b"n,," + made.first.encode(),
    "nothing at last": lambda made, told: b"",
}
EXTENDED = {
    "alice by her name as a token": Scram("alice", ALICE, more=",tokenauth=true"),
    "alice by her name as a token, said twice": Scram("alice", ALICE, more=",tokenauth=false,tokenauth=true"),
    "alice by her name as a token in capitals": Scram("alice", ALICE, more=",tokenauth=TRUE"),
    "a token that there is not": Scram("AAAAAAAAAAAAAAAAAAAAAA", ALICE, more=",tokenauth=true"),
}


def _overheard(fort: Fort) -> tuple[str, bytes]:
    """What somebody hears who listens to a login of alice."""
    with fort.line() as line:
        made = Scram("alice", ALICE)
        told = made.open(line)
        final = made.final(told)
        assert line.token(final).startswith(b"v=")
    return made.header + made.first, final


def _replayed(fort: Fort, line: Line) -> None:
    first, final = _overheard(fort)
    line.handshake(SHA_256.name)
    line.token(first.encode())
    line.token(final)


def _last_at_first(fort: Fort, line: Line) -> None:
    _, final = _overheard(fort)
    line.handshake(SHA_256.name)
    line.token(final)


def _first_twice(fort: Fort, line: Line) -> None:
    made = Scram("alice", ALICE)
    made.open(line)
    line.token((made.header + made.first).encode())


def _guessed_twice(fort: Fort, line: Line) -> None:
    made = Scram("alice", ALICE)
    told = made.open(line)
    line.put(36, 2, auth_bytes=Scram("alice", "guess").final(told))
    line.put(36, 2, auth_bytes=made.final(told))
    line.heard.append(str(struct.unpack_from(">h", line.frame(), 5)[0]))
    line.frame()


def _other_algorithm(fort: Fort, line: Line) -> None:
    told = Scram("alice", ALICE).open(line)
    line.token(Scram("alice", ALICE, SHA_512).final(told))


def of_token(token: str, proof: str, more: str = ",tokenauth=true", algorithm: Algorithm = SHA_256) -> Step:
    """A login with the id of one token and the proof of another, each of the fort's."""

    def step(fort: Fort, line: Line) -> None:
        password = b64encode(fort.tokens[proof][1]).decode() if proof in fort.tokens else proof
        scram(Scram(fort.tokens[token][0].replace("=", "=3D"), password, algorithm, more=more))(fort, line)

    return step


def token_tries() -> Iterator[Try]:
    wrong = "0 0 58 closed"

    def row(name: str, step: Step, must: str = wrong) -> Try:
        return Try("delegation token", name, entering(step), must)

    yield row("alice's with the proof of mallory's", of_token("alice", "mallory"))
    yield row("alice's with her password", of_token("alice", ALICE))
    yield row("alice's with mallory's password", of_token("alice", MALLORY))
    yield row("alice's, as a user's name", of_token("alice", "alice", ""))
    yield row("alice's, as a user's name by SHA-512", of_token("alice", "alice", "", SHA_512))
    yield row("alice's, where the extension says no", of_token("alice", "alice", ",tokenauth=false"))
    yield row("alice's, where the extension is misspelt", of_token("alice", "alice", ",tokenAuth=true"))
    yield row("one that was ended", of_token("ended", "ended"))
    yield row("one whose time is over", of_token("past", "past"))
    yield row("one whose time is over, by SHA-512", of_token("past", "past", algorithm=SHA_512))
    yield row("alice's with its secret as the signature's key", of_token("alice", "what delegation tokens are signed with"))


WRONG_MECHANISMS = (
    "scram-sha-256", "SCRAM-SHA-1", "SCRAM-SHA-256-PLUS", "ANONYMOUS", "EXTERNAL", "CRAM-MD5", "DIGEST-MD5", "LOGIN", "NTLM",
    "OAUTHBEARER", "GSSAPI", "plain", " PLAIN", "PLAIN\0", "PLAIN,SCRAM-SHA-256", "", "\uff30LAIN", "x" * 300,
)  # fmt: skip


def order_tries() -> Iterator[Try]:
    for name in WRONG_MECHANISMS:
        yield Try("mechanism", repr(name[:30]), entering(begun(name)), "33 closed")
        yield Try("mechanism", f"{name[:30]!r}, by version 0", entering(begun(name, 0)), "33 closed")
    for name, (steps, must) in ORDERS.items():
        yield Try("order", name, entering(*steps), must)


GOOD = f"\0mallory\0{MALLORY}".encode()
ORDERS: dict[str, tuple[tuple[Step, ...], str]] = {
    "a token without a handshake": ((said(GOOD),), "closed"),
    "a token of PLAIN after a handshake of SCRAM": ((begun("SCRAM-SHA-256"), said(GOOD)), "0 58 closed"),
    "two handshakes": ((begun("PLAIN"), begun("PLAIN")), "0 closed"),
    "two handshakes of different mechanisms": ((begun("SCRAM-SHA-512"), begun("PLAIN")), "0 closed"),
    "another mechanism in the midst of a login": ((begun("SCRAM-SHA-256"), said(b"n,,n=alice,r=x"), begun("PLAIN")), "0 0 closed"),
    "versions asked for twice": ((asked(18, 0), asked(18, 0)), "closed"),
    "versions asked for after a handshake": ((begun("PLAIN"), asked(18, 0)), "0 closed"),
    "a token after the wrong one": ((begun("PLAIN"), said(b"\0alice\0x"), said(GOOD)), "0 58 closed"),
    "a handshake after a wrong token": ((begun("PLAIN"), said(b"\0alice\0x"), begun("PLAIN")), "0 58 closed"),
    "a bare token without a handshake": ((frame(GOOD), until_the_end), "closed"),
    "a bare token after a handshake of version 1": ((begun("PLAIN"), frame(GOOD), until_the_end), "0 closed"),
    "a request after a handshake of version 0": ((begun("PLAIN", 0), asked(3, 1, topics=[])), "0 closed"),
    "a wrong bare token": ((begun("PLAIN", 0), bare(b"\0alice\0guess")), "0 closed"),
    "an empty bare token": ((begun("PLAIN", 0), bare(b"")), "0 closed"),
    "a bare token to act as alice": ((begun("PLAIN", 0), bare(f"alice\0mallory\0{MALLORY}".encode())), "0 closed"),
    "a bare token of GSSAPI where there is none": ((frame(b"\x60\x82\x01\x00" + bytes(256)), until_the_end), "closed"),
    "an empty frame": ((frame(b""), until_the_end), "closed"),
    "a frame of one byte": ((frame(b"\0"), until_the_end), "closed"),
    "an API that nobody has": ((frame(struct.pack(">hhih", 999, 0, 1, -1)), until_the_end), "closed"),
    "an API below all": ((frame(struct.pack(">hhih", -1, 0, 1, -1)), until_the_end), "closed"),
    "a handshake of a version that nobody has": ((frame(struct.pack(">hhihh", 17, 99, 1, -1, 0)), until_the_end), "closed"),
    "a token of version 99": ((begun("PLAIN"), frame(struct.pack(">hhihi", 36, 99, 1, -1, 0)), until_the_end), "0 closed"),
    "a handshake without a mechanism": ((frame(struct.pack(">hhih", 17, 1, 1, -1)), until_the_end), "closed"),
    "a handshake cut off": ((frame(struct.pack(">hhihh", 17, 1, 1, -1, 500) + b"PLAIN"), until_the_end), "closed"),
    "a mechanism of a length below 0": ((frame(struct.pack(">hhihh", 17, 1, 1, -1, -2)), until_the_end), "closed"),
    "a token that is cut off": ((begun("PLAIN"), frame(struct.pack(">hhihi", 36, 0, 1, -1, 1 << 30)), until_the_end), "0 closed"),
    "a token of 64 KB": ((begun("PLAIN"), raw(struct.pack(">i", 65_537)), until_the_end), "0 closed"),
    "a bare token of 64 KB": ((begun("PLAIN", 0), raw(struct.pack(">i", 65_537)), until_the_end), "0 closed"),
    "a frame of 2 GB": ((raw(struct.pack(">i", (1 << 31) - 1)), until_the_end), "closed"),
    "a frame of a length below 0": ((raw(b"\xff\xff\xff\xff"), until_the_end), "closed"),
    "a request of HTTP": ((raw(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"), until_the_end), "closed"),
    "TLS where none is spoken": ((raw(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(512)), until_the_end), "closed"),
}  # fmt: skip


def every_api(name: str, must: str, *before: Step, but: tuple[int, ...], listener: str = "LOGIN") -> Iterator[Try]:
    """Each API at a time at which none but some may come."""

    def one(key: int) -> Step:
        def step(fort: Fort, line: Line) -> None:
            line.put(key, API[key].request.WIRE.valid[0])
            drained(line)

        return step

    for key in sorted(API.keys() - set(but)):
        yield Try(name, API[key].name, entering(*before, one(key), listener=listener), must)


def api_tries() -> Iterator[Try]:
    yield from every_api("before a login", "closed", but=(17, 18))
    yield from every_api("between handshake and token", "0 closed", begun("PLAIN"), but=(36,))
    midst = begun("SCRAM-SHA-512"), said(b"n,,n=alice,r=x")
    yield from every_api("between two tokens", "0 0 closed", *midst, but=(36,))


AGAIN = (*plain("mallory", MALLORY), rested(1.1))
ENDED = (*plain("mallory", MALLORY), rested(0.5))
RENEWALS: dict[str, tuple[tuple[Step, ...], str]] = {
    "as alice": ((*AGAIN, *plain("alice", ALICE)), "0 0 0 58 closed"),
    "as alice with a wrong password": ((*AGAIN, *plain("alice", "guess")), "0 0 0 58 closed"),
    "as himself with a wrong password": ((*AGAIN, *plain("mallory", "guess")), "0 0 0 58 closed"),
    "as himself, to act as alice": ((*AGAIN, *plain("mallory", MALLORY, "alice")), "0 0 0 58 closed"),
    "by another mechanism": ((*AGAIN, scram(Scram("mallory", MALLORY))), "0 0 33 closed"),
    "by a stronger mechanism as alice": ((*AGAIN, scram(Scram("alice", ALICE))), "0 0 33 closed"),
    "by a weaker mechanism": ((scram(Scram("mallory", MALLORY)), rested(1.1), *plain("mallory", MALLORY)), "0 0 0 33 closed"),
    "as alice by a token": ((scram(Scram("mallory", MALLORY)), rested(1.1), of_token("alice", "alice")), "0 0 0 0 0 58 closed"),
    "a token without a handshake": ((*AGAIN, said(f"\0alice\0{ALICE}".encode()), *plain("alice", "guess")), "0 0 34 0 58 closed"),
    "at once": ((*plain("mallory", MALLORY), begun("PLAIN"), begun("x")), "0 0 34 34 in"),
    "a request between": ((*AGAIN, begun("PLAIN"), asked(18, 0)), "0 0 0 closed"),
    "by version 0 as alice": ((*AGAIN, begun("PLAIN", 0), bare(f"\0alice\0{ALICE}".encode())), "0 0 0 closed"),
}  # fmt: skip
LATE: dict[str, tuple[tuple[Step, ...], str]] = {
    "a request": ((*ENDED, asked(3, 12, topics=[])), "0 0 closed"),
    "versions": ((*ENDED, asked(18, 0)), "0 0 closed"),
    "a token without a handshake": ((*ENDED, said(GOOD)), "0 0 closed"),
    "as alice": ((*plain("mallory", MALLORY), rested(1.1), *plain("alice", ALICE)), "0 0 0 58 closed"),
    "too soon": ((*ENDED, begun("PLAIN")), "0 0 closed"),
}


def renewal_tries() -> Iterator[Try]:
    for name, (steps, must) in RENEWALS.items():
        yield Try("another login", name, entering(*steps, listener="AGAIN"), must)
    for name, (steps, must) in LATE.items():
        yield Try("after the end of a login", name, entering(*steps, listener="BRIEF"), must)


def login_tries() -> Iterator[Try]:
    for tries in (plain_tries, scram_tries, token_tries, order_tries, renewal_tries, api_tries):
        yield from tries()


def right_logins() -> Iterator[Try]:
    """Those who belong there: they get in by the same steps, or the others would prove nothing."""

    def row(name: str, must: str, *steps: Step, listener: str = "LOGIN") -> Try:
        return Try("right", name, entering(*steps, listener=listener), must)

    yield row("PLAIN", "0 0 in", *plain("alice", ALICE))
    yield row("PLAIN, to act as herself", "0 0 in", *plain("alice", ALICE, "alice"))
    yield row("PLAIN after versions", "0 0 in", asked(18, 0), *plain("alice", ALICE))
    yield row("PLAIN by bare tokens", "0 0 bytes in", begun("PLAIN", 0), bare(f"\0alice\0{ALICE}".encode()))
    yield row("SCRAM-SHA-256", "0 0 0 in", scram(Scram("alice", ALICE)))
    yield row("SCRAM-SHA-512", "0 0 0 in", scram(Scram("alice", ALICE, SHA_512)))
    yield row("SCRAM of a user with another letter", "0 0 0 in", scram(Scram("zo\u00eb", PASSWORDS["zo\u00eb"])))
    yield row("a delegation token", "0 0 0 in", of_token("alice", "alice"))
    yield row("a delegation token by SHA-512", "0 0 0 in", of_token("mallory", "mallory", algorithm=SHA_512))
    yield row("another login as the same", "0 0 0 0 in", *AGAIN, *plain("mallory", MALLORY), listener="AGAIN")
