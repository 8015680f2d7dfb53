"""`ottla logdirs`, `ottla token`, `ottla cluster quorum` and `unregister` against a broker with users."""

from __future__ import annotations

import errno
import io
import json
from collections.abc import Iterator
from contextlib import suppress

import pytest

import ottla
from tests.support.commands import Run


@pytest.fixture(scope="module")
def broker() -> Iterator[ottla.Broker]:
    users = {"alice": "secret", "bob": "other"}
    with ottla.Broker(num_partitions=2, users=users, delegation_token_secret_key="key") as broker:
        with ottla.Admin(**broker.client_settings()) as admin:
            admin.create_topic("t")
            admin.create_topic("u")
        with ottla.Producer(**broker.client_settings()) as producer:
            producer.send("t", b"x" * 1000, partition=0)
        yield broker


@pytest.fixture
def ottla_(broker: ottla.Broker, run: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run lines as a user who has logged in."""
    monkeypatch.setenv("OTTLA_BOOTSTRAP_SERVER", broker.address)
    login = "-X security.protocol=SASL_PLAINTEXT -X sasl.mechanism=PLAIN -X sasl.username=alice -X sasl.password=secret"
    return lambda line: run(f"{line} {login}")


def rows(out: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in out.splitlines()]


def test_directories_are_listed_with_what_they_hold(ottla_: Run) -> None:
    (directory,) = rows(ottla_("logdirs --json")[1])
    assert {name: directory[name] for name in ("broker", "status", "replicas", "future")} == {
        "broker": 1, "status": "online", "replicas": 4, "future": 0,
    }  # fmt: skip
    assert isinstance(directory["size"], int)
    assert isinstance(directory["free"], int)
    assert directory["size"] > 1000
    assert directory["free"] > 0
    assert "online" in ottla_("logdirs")[1]
    assert rows(ottla_("logdirs --topic u --broker 1 --json")[1])[0]["replicas"] == 2
    replicas = rows(ottla_("logdirs --replicas --topic t --json")[1])
    assert [(each["topic"], each["partition"], each["lag"], each["future"]) for each in replicas] == [
        ("t", 0, 0, False),
        ("t", 1, 0, False),
    ]
    assert "DIRECTORY" in ottla_("logdirs --replicas")[1]


def test_the_quorum_of_a_broker_by_itself_is_that_broker(ottla_: Run) -> None:
    (leader,) = rows(ottla_("cluster quorum --json")[1])
    endpoints = leader["endpoints"]
    assert isinstance(endpoints, list)
    assert ",".join(endpoints) in ottla_("cluster quorum --utc")[1]
    assert (leader["node"], leader["role"], leader["lag"]) == (1, "leader", 0)
    assert "leader" in ottla_("cluster quorum --utc")[1]


def test_a_token_is_created_listed_renewed_and_ended(ottla_: Run) -> None:
    code, out, err = ottla_("token create --renewer User:bob --max-lifetime 2h --json")
    assert (code, "not printed again" in err) == (0, True)
    (token,) = rows(out)
    assert (token["owner"], token["renewers"]) == ("User:alice", ["User:bob"])
    assert int(str(token["ends_at_the_latest"])) - int(str(token["issued"])) == 7_200_000
    hmac = str(token.pop("hmac"))
    assert rows(ottla_("token list --json --owner User:alice")[1]) == [token]
    listed = ottla_("token list --utc")[1]
    assert str(token["id"]) in listed
    assert hmac not in listed
    (renewed,) = rows(ottla_(f"token renew {token['id']} --by 1h --json")[1])
    assert int(str(renewed["expires"])) < int(str(token["ends_at_the_latest"]))
    assert "expires at" in ottla_(f"token renew {token['id']}")[1]
    code, _, err = ottla_(f"token expire {token['id']}")
    assert (code, "Add --yes" in err) == (2, True)
    assert "expires at" in ottla_(f"token expire {token['id']} --in 5m --yes")[1]
    assert "expired at" in ottla_(f"token expire {token['id']} --yes")[1]
    assert ottla_("token list")[1] == "There are no delegation tokens that this user may describe.\n"


@pytest.mark.parametrize(
    ("line", "code", "sentence"),
    [
        ("logdirs --broker 9", 1, "There is no live broker 9: the live ones are 1."),
        ("logdirs --broker one", 2, "invalid int value: 'one'"),
        ("logdirs --topic none", 1, "UNKNOWN_TOPIC_OR_PARTITION"),
        ("logdirs --topics t", 2, "did you mean --topic?"),
        ("logdirs extra", 2, "unknown arguments: extra"),
        ("cluster quorum 1", 2, "unknown arguments: 1"),
        ("cluster unregister", 2, "required: ID"),
        ("cluster unregister x", 2, "'x' is not a whole number"),
        ("cluster unregister 1 --yes", 1, "Broker 1 is live: stop it first."),
        ("cluster unregister 7", 2, "Add --yes, since there is no terminal"),
        ("cluster unregister 7 --yes", 1, "BROKER_ID_NOT_REGISTERED"),
        ("token create --owner alice", 2, "'alice' is not a principal, such as User:alice"),
        ("token create --renewer :bob", 2, "':bob' is not a principal"),
        ("token create --max-lifetime soon", 2, "'soon' is not a duration"),
        ("token list --owner bob", 2, "'bob' is not a principal"),
        ("token renew", 2, "required: ID"),
        ("token renew none", 1, "There is no delegation token none"),
        ("token renew none --by 1", 2, "'1' is not a duration"),
        ("token expire none --yes", 1, "There is no delegation token none"),
        ("token expire none --in -5m", 2, "expected one argument"),
        ("token lst", 2, "did you mean 'list'?"),
        ("cluster quorm", 2, "did you mean 'quorum'?"),
        ("cluster status t", 2, "unknown arguments: t"),
        ("cluster statsu", 2, "did you mean 'status'?"),
        ("cluster brokers --jsn", 2, "did you mean --json?"),
        ("cluster partitions --topic none", 1, "Topic none: UNKNOWN_TOPIC_OR_PARTITION"),
        ("cluster partitions --topic a/b", 1, "Topic a/b: INVALID_TOPIC_EXCEPTION"),
        ("cluster partitions --topic", 2, "expected one argument"),
        ("cluster partitions --ofline", 2, "did you mean --offline?"),
        ("cluster reassign --topic t --brokers", 2, "expected one argument"),
        ("cluster reassign --topic t --brokers x", 2, "'x' is not like 1,2,3"),
        ("cluster reassign --topic t --brokers ''", 2, "'' is not like 1,2,3"),
        ("cluster reassign --topic t --brokers 9", 2, "Broker 9 is not alive: choose among 1."),
        ("cluster reassign --topic none --brokers 1", 1, "UNKNOWN_TOPIC_OR_PARTITION"),
        ("cluster reassign --topic t --brokers 1 --throttle x", 2, "--throttle"),
        ("cluster reassign --topic t --brokers 1 --throttle -5", 2, "--throttle"),
        ("cluster reassign --plan /none", 2, "Cannot read /none: No such file or directory"),
        ("cluster reassign --plan /", 2, "Cannot read /: Is a directory"),
        ("cluster reassign --plan /dev/null", 2, "/dev/null is not a plan of reassignments: write JSON like"),
        ("cluster reassign --replication-factor 3 --topic t", 2, "3 brokers"),
        ("cluster drain", 2, "required: BROKER"),
        ("cluster drain x", 2, "'x'"),
        ("cluster drain 9", 2, "Broker 9 is not alive and has no replica: choose among 1."),
        ("cluster drain 1", 2, "0 are available"),
        ("cluster elect --topic none", 1, "UNKNOWN_TOPIC_OR_PARTITION"),
        ("cluster elect --topic t:x", 2, "'t:x' is not a partition: write t:0."),
        ("cluster elect --topic t:99", 1, "t-99"),
        ("cluster elect t", 2, "unknown arguments: t"),
        ("cluster unregister -1", 2, "'-1' is not a whole number"),
        ("cluster unregister 1 2", 2, "unknown arguments: 2"),
        ("cluster unregister 99999999999 --yes", 2, "99999999999"),
        ("cluster unregister 7 --yse", 2, "did you mean --yes?"),
        ("logdirs --broker -1", 1, "There is no live broker -1"),
        ("logdirs --broker 1 --broker 9", 1, "There is no live broker 9"),
        ("logdirs --broker", 2, "expected one argument"),
        ("logdirs --topic t --topic none", 1, "Topic none: UNKNOWN_TOPIC_OR_PARTITION"),
        ("logdirs --topic a/b", 1, "Topic a/b: INVALID_TOPIC_EXCEPTION"),
        ("logdirs --replica", 2, "did you mean --replicas?"),
        ("metrics clients none", 1, "No broker knows client instance none"),
        ("metrics clients --client-id none", 1, "None of these clients has pushed metrics"),
        ("metrics clints", 2, "did you mean 'clients'?"),
        ("token create --max-lifetime 0s", 2, "'0s' is not a time above 0"),
        ("token create --max-lifetime 1.5", 2, "'1.5' is not a duration"),
        ("token create --owner User:", 2, "'User:' is not a principal"),
        ("token create --renewer Group:x", 1, "INVALID_PRINCIPAL_TYPE"),
        ("token create extra", 2, "unknown arguments: extra"),
        ("token renew none --by 0s", 2, "'0s' is not a time above 0"),
        ("token renew none --by", 2, "expected one argument"),
        ("token renew ''", 1, "There is no delegation token"),
        ("token expire none", 1, "There is no delegation token none"),
        ("token expire none --in soon", 2, "'soon' is not a duration"),
        ("token expire none other --yes", 2, "unknown arguments: other"),
        ("token list --owner", 2, "expected one argument"),
    ],
)
def test_a_mistake_is_one_sentence_and_changes_nothing(ottla_: Run, line: str, code: int, sentence: str) -> None:
    found, out, err = ottla_(line)
    assert (found, out) == (code, "")
    assert sentence in err
    assert err.startswith("ottla: ")
    assert err.count("\n") == 1
    assert ottla_("token list --json")[1] == ""


def test_tokens_of_others_and_expired_ones_are_refused(ottla_: Run, broker: ottla.Broker) -> None:
    given = broker.client_settings() | {"sasl_username": "bob", "sasl_password": "other"}
    with ottla.Admin(**given) as bob:
        short = bob.create_delegation_token(renewers=["User:alice"], max_lifetime_ms=1)
        own = bob.create_delegation_token()
        for line, sentence in (
            (f"token renew {own.token_id}", "DELEGATION_TOKEN_OWNER_MISMATCH: Only the owner and the renewers"),
            (f"token expire {own.token_id} --yes", "DELEGATION_TOKEN_OWNER_MISMATCH"),
            (f"token renew {short.token_id}", "DELEGATION_TOKEN_EXPIRED: The token has expired: create a new one."),
        ):
            code, out, err = ottla_(line)
            assert (code, out, err.count("\n")) == (1, "", 1)
            assert sentence in err
        for token in (own, short):
            with suppress(ottla.KafkaError):
                bob.expire_delegation_token(token.hmac)


def test_a_token_whose_secret_cannot_be_printed_is_ended(
    ottla_: Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class FullDisk(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("sys.stdout", FullDisk())
        code, _, err = ottla_("token create")
    assert (code, "Standard output cannot be written" in err) == (1, True)
    assert ottla_("token list --json")[1] == ""
