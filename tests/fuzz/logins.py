"""The logins' part of what is fuzzed: frames to a listener with SASL, tokens to each mechanism, and texts to what reads them.

Nobody gets in who has no secret, whatever he sends: no input has one. Nothing but a refusal leaves a reader.
"""

from __future__ import annotations

import random
import ssl
import struct
import warnings
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache, partial
from typing import NamedTuple

import trustme

from ottla.broker.security import kerberos_names, principals
from ottla.broker.security.certificates import read_certificate
from ottla.broker.serving.request import Close, Peer
from ottla.cluster.scram import credential_in
from ottla.errors import SettingError
from ottla.net.security.key_stores import key_and_chain, read_trusted
from ottla.sasl import jaas, oauthbearer
from ottla.sasl.bearer import BearerRules, expiry_ms, judge_unsecured
from ottla.sasl.dummy_credentials import dummy_credential
from ottla.sasl.mechanism import Authenticated, Challenge, Computed, SaslFailed, ServerMechanism
from ottla.sasl.oauthbearer import BadToken, OAuthBearerServer
from ottla.sasl.plain import PlainServer
from ottla.sasl.saslprep import saslprep
from ottla.sasl.scram import SHA_256, SHA_512, Algorithm, credential_of, xor
from ottla.sasl.scram_client import ScramClient
from ottla.sasl.scram_server import Account, ScramServer
from tests.support.machine import Machine

WALL_MS = 1_800_000_000_000
SALT, ROUNDS = b"a grain of salt", 4096
CUT = b"\x00\xfe\x00"
"""Between the tokens of one exchange."""


class Material(NamedTuple):
    """What a round is made of: a name for reports, seeds, and what every input has to stand."""

    label: str
    seeds: list[bytes]
    check: Callable[[bytes], None]


def material(rng: random.Random) -> Material:
    return rng.choice((_front, _mechanisms, _readers))(rng)


# ------------------------------------------------------------------------ frames


@cache
def _machine() -> Machine:
    """A broker with one user, whose password stands in no input."""
    password = random.SystemRandom().randbytes(16).hex()
    machine = Machine(
        **{
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            "listener.security.protocol.map": "IN:SASL_PLAINTEXT",
            "connection.failed.authentication.delay.ms": 0,
            "listener.name.in.plain.sasl.jaas.config": (
                f'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="{password}";'
            ),
        }
    )
    machine.broker.logins.open("IN")
    return machine


def _front(rng: random.Random) -> Material:
    mechanism = rng.choice((b"PLAIN", b"SCRAM-SHA-256", b"SCRAM-SHA-512"))
    handshake = struct.pack(">hhihh", 17, rng.randrange(2), 1, -1, len(mechanism)) + mechanism
    tokens = [b"\0alice\0guess", b"n,,n=alice,r=abc", b"c=biws,r=abc,p=" + b64encode(bytes(32)), b"n,,n=x,r=y,tokenauth=true"]
    asked = [struct.pack(">hhihi", 36, rng.randrange(2), 2, -1, len(token)) + token for token in tokens]
    others = [struct.pack(">hhih", 18, 0, 3, -1), struct.pack(">hhihi", 3, 1, 4, -1, -1), *tokens, *asked]
    seeds = [_framed([handshake, *rng.sample(others, 3)]) for _ in range(4)]
    return Material("frames to a listener with SASL", [*seeds, _framed(rng.sample(others, 3))], check_front)


def _framed(frames: list[bytes]) -> bytes:
    return b"".join(struct.pack(">H", len(frame)) + frame for frame in frames)


def _frames(data: bytes) -> Iterator[bytes]:
    at = 0
    while at + 2 <= len(data):
        (size,) = struct.unpack_from(">H", data, at)
        yield data[at + 2 : at + 2 + size]
        at += 2 + size


def check_front(data: bytes) -> None:
    machine = _machine()
    peer = Peer(1, "127.0.0.1", 50000, listener="IN", authentication=machine.broker.logins.begin("IN"))
    for frame in _frames(data):
        if isinstance(machine.broker.receive(memoryview(frame), peer, machine.clock.now()), Close):
            break
    assert peer.principal == principals.ANONYMOUS, "nobody gets in without the password"
    assert machine.broker.changes.mistakes == 0


# -------------------------------------------------------------------- mechanisms


@cache
def _accounts(algorithm: Algorithm) -> Account:
    password = random.SystemRandom().randbytes(16).hex()
    return Account("alice", credential_of(algorithm, algorithm.salt_password(password, SALT, ROUNDS), SALT, ROUNDS))


def _mechanisms(rng: random.Random) -> Material:
    algorithm = rng.choice((SHA_256, SHA_512))
    token = b".".join(urlsafe_b64encode(part).rstrip(b"=") for part in (b'{"alg":"none"}', b'{"sub":"alice"}', b""))
    made: list[tuple[str, Callable[[], ServerMechanism], list[bytes]]] = [
        ("PLAIN", lambda: PlainServer(lambda name, password: False), [b"\0alice\0guess", b"alice\0bob\0guess"]),
        (algorithm.name, partial(_scram_server, algorithm), _scram_tokens(algorithm)),
        (
            "OAUTHBEARER",
            lambda: OAuthBearerServer(lambda token, wall_ms: BadToken("no key has signed it")),
            [b"n,a=alice,\x01auth=Bearer " + token + b"\x01host=x\x01\x01" + CUT + b"\x01", b"n,,\x01auth=Bearer x\x01\x01"],
        ),
    ]
    name, make, seeds = rng.choice(made)
    return Material(f"tokens of {name}", seeds, partial(check_tokens, make))


def _scram_server(algorithm: Algorithm) -> ScramServer:
    return ScramServer(
        algorithm,
        lambda name, is_token: _accounts(algorithm) if name == "alice" else None,
        "of the server",
        partial(dummy_credential, algorithm, b"s"),
    )


def _scram_tokens(algorithm: Algorithm) -> list[bytes]:
    """Exchanges that are right but for the password."""
    first, nonce = "n=alice,r=abc", "abcof the server"
    told = f"r={nonce},s={b64encode(SALT).decode()},i={ROUNDS}"
    key = algorithm.hmac(algorithm.salt_password("guess", SALT, ROUNDS), b"Client Key")
    without = f"c=biws,r={nonce}"
    proof = xor(key, algorithm.hmac(algorithm.hash(key), f"{first},{told},{without}".encode()))
    final = f"{without},p={b64encode(proof).decode()}".encode()
    return [f"n,,{first}".encode() + CUT + final, b"n,a=alice,n=alice,r=abc,tokenauth=true" + CUT + final]


def check_tokens(make: Callable[[], ServerMechanism], data: bytes) -> None:
    server = make()
    for token in data.split(CUT):
        step = server.step(token, WALL_MS)
        if isinstance(step, Computed):
            step = step.work()
        assert not isinstance(step, Authenticated), "nobody gets in without the secret"
        if not isinstance(step, Challenge):
            return


# ----------------------------------------------------------------------- readers


@cache
def _pem() -> tuple[bytes, bytes]:
    """A key and a certificate."""
    authority = trustme.CA()
    issued = authority.issue_cert("a.example", common_name="a, b", organization_name="c")
    return issued.private_key_pem.bytes(), issued.cert_chain_pems[0].bytes()


def _readers(rng: random.Random) -> Material:
    key, certificate = _pem()
    der = ssl.PEM_cert_to_DER_cert(certificate.decode())
    token = b".".join(urlsafe_b64encode(part).rstrip(b"=") for part in (b'{"alg":"none"}', _CLAIMS, b""))
    readers: list[Material] = [
        Material("sasl.jaas.config", [jaas.EXAMPLE.encode(), b"a.B required /* x */ c='d\\n' e=\"f\";"], _text(jaas.parse)),
        Material("ssl.principal.mapping.rules", [b"RULE:^CN=(.*?),O=(a|b).*$/$1@$2/L,DEFAULT", b"RULE:(\\w+)/x\\/$1/U"], _mapped),
        Material("sasl.kerberos.principal.to.local.rules", [b"RULE:[2:$1@$0](.*@A)s/@.*//g/L", b"DEFAULT"], _text(_local)),
        Material("a certificate", [der], _certificate),
        Material("a key store", [key + certificate], _store),
        Material("a token", [token], _text(_judged)),
        Material("a message of OAUTHBEARER", [b"n,a=a=2Cb,\x01auth=Bearer x.y.z\x01a=b\x01\x01"], _bytes(oauthbearer.read)),
        Material("a stored credential", [b"salt=YQ==,stored_key=YQ==,server_key=YQ==,iterations=4096"], _text(_credential)),
        Material("a name for SASLprep", ["al\u00adice \uff41\u0627\u0031".encode()], _text(saslprep)),
        Material("a server's message of SCRAM", [b"r=abcx,s=YQ==,i=4096" + CUT + b"v=YQ==", b"e=other-error"], _server_said),
    ]
    return rng.choice(readers)


_CLAIMS = b'{"sub":"a","exp":1800000600,"iat":1800000000,"nbf":1.5,"aud":["x","y"],"iss":"i","scope":"a b"}'


def _text(read: Callable[[str], object]) -> Callable[[bytes], None]:
    return _bytes(lambda data: read(data.decode("utf-8", "replace")))


def _bytes(read: Callable[[bytes], object]) -> Callable[[bytes], None]:
    def check(data: bytes) -> None:
        with suppress(ValueError, SettingError), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # patterns may mean something else in a Python to come
            read(data)

    return check


def _mapped(data: bytes) -> None:
    """Rules only: which names a pattern fits, and how long it looks, is the operator's."""
    _text(principals.rules)(data)


def _local(text: str) -> object:
    return kerberos_names.parse_rules([text], "A")


def _certificate(data: bytes) -> None:
    with suppress(ValueError):
        read_certificate(data)


def _store(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    for given in (
        {"ssl.keystore.key": text, "ssl.keystore.certificate.chain": text},
        {"ssl.truststore.certificates": text},
    ):
        with suppress(SettingError):
            key_and_chain(given)
            read_trusted(given)


def _judged(text: str) -> object:
    rules = BearerRules(frozenset({"x"}), "i", required_scopes=frozenset({"a"}))
    return judge_unsecured(rules, text, WALL_MS), expiry_ms(text)


def _credential(text: str) -> object:
    return credential_in({"SCRAM-SHA-256": text}, SHA_256)


def _server_said(data: bytes) -> None:
    client = ScramClient(SHA_256, "alice", "secret", "abc")
    client.step(b"")
    iterations = data.partition(b"i=")[2][:6]
    if iterations.startswith((b"4096,", b"4096")) or not iterations[:1].isdigit():  # others only take longer
        with suppress(SaslFailed):
            for message in data.split(CUT):
                assert client.step(message) is not None, "a server that knows no password is not believed"
