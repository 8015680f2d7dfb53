"""Mistakes with users, ACLs, quotas, features, transactions, tokens and log directories, by users with and without rights."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import ottla
from tests.support.kinds import one_of_each
from tests.support.mistakes import Commands

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ottla.Broker]:
    """A broker on which root may do everything, and alice nothing."""
    with ottla.Broker(
        num_partitions=1,
        users={"root": "r", "alice": "a"},
        authorizer_class_name=AUTHORIZER,
        super_users="User:root",
        delegation_token_secret_key="key",
    ) as broker:
        yield broker


@pytest.fixture(scope="module")
def files(broker: ottla.Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Files for --command-config, by what is in them."""
    home = tmp_path_factory.mktemp("logins")
    sasl = f"bootstrap.servers={broker.address}\nsecurity.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
    patience = "request.timeout.ms=2000\ndefault.api.timeout.ms=2000\n"
    found: dict[str, str] = {}
    with ottla.Broker() as plain:
        texts = {
            "root": f"{sasl}sasl.username=root\nsasl.password=r\n",
            "alice": f"{sasl}sasl.username=alice\nsasl.password=a\n",
            "stranger": f"{sasl}sasl.username=alice\nsasl.password=b\n",
            "mechanism": f"{sasl.replace('PLAIN', 'SCRAM-SHA-256', 2).replace('SASL_SCRAM-SHA-256TEXT', 'SASL_PLAINTEXT')}"
            "sasl.username=alice\nsasl.password=a\n",
            "needless": f"{sasl}sasl.username=root\nsasl.password=r\n".replace(broker.address, plain.address),
            "nameless": sasl,
            "closed": "bootstrap.servers=127.0.0.1:1\ndefault.api.timeout.ms=50\n",
        }
        for name, text in texts.items():
            path = home / name
            path.write_text(text if name == "closed" else text + patience)
            found[name] = str(path)
        yield found


@pytest.fixture
def commands(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Commands:
    monkeypatch.setattr("sys.stdin", None)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return Commands(capsys)


LONG = "x" * 40_000


@pytest.mark.rows(25, seconds=0.1)
@pytest.mark.parametrize(
    ("line", "code", "sentence"),
    [
        ("acl add", 2, "required: PRINCIPAL, OPERATION, RESOURCE, NAME"),
        ("acl add User:alice read topic", 2, "required: NAME"),
        ("acl add alice read topic t", 2, "alice"),
        ("acl add User:alice reed topic t", 2, "reed"),
        ("acl add User:alice read topik t", 2, "topik"),
        ("acl add User:alice read topic ''", 1, "INVALID_REQUEST"),
        ("acl add User:alice read cluster other", 1, "kafka-cluster"),
        ("acl add User:alice read topic t --prefix", 2, "did you mean --prefixed?"),
        ("acl add User:alice read topic t --node-id 3", 2, "--node-id is for a new data directory"),
        ("acl add User:alice read topic t --data-dir /proc/none", 1, "/proc/none"),
        ("acl add User:alice read topic t --data-dir /tmp -X client.id=c", 2, "--data-dir needs no connection"),
        ("acl list --data-dir /none -b a:1", 2, "not allowed with argument"),
        ("acl remove User:alice read topic", 2, "required: NAME"),
        ("acl list --resource topik", 2, "topik"),
        ("acl list --principal alice", 2, "alice"),
        ("acl list topic", 2, "unknown arguments: topic"),
        ("acl lst", 2, "did you mean 'list'?"),
        ("user add", 2, "required: NAME"),
        ("user add bob", 2, "standard input is empty: write the password to its first line."),
        ("user add bob --iterations many", 2, "many"),
        ("user remove", 2, "required: NAME"),
        ("user remove bob", 1, "RESOURCE_NOT_FOUND"),
        ("user remove bob --mechanism MD5", 2, "MD5"),
        ("user remove ''", 1, ""),
        (f"user remove {LONG}", 2, "40000 bytes"),
        ("user list bob", 1, "There is no SCRAM user bob"),
        ("user list --mechanism x", 2, "unknown arguments: --mechanism"),
        ("user remove bob --data-dir /none", 1, "/none"),
        ("quota set", 2, "required: QUOTA=NUMBER"),
        ("quota set producer_byte_rate=1", 2, "the quota's entity is missing: give --user, --client-id, both of them, or --ip."),
        ("quota set producer_byte_rate --user a", 2, "'producer_byte_rate' is not like producer_byte_rate=1000000"),
        ("quota set producer_byte_rate=x --user a", 2, "'producer_byte_rate=x' is not like"),
        ("quota set producer_byte_rate=nan --user a", 2, "'producer_byte_rate=nan'"),
        ("quota set producer_byte_rate=inf --user a", 2, "'producer_byte_rate=inf'"),
        ("quota set producer_byte_rate=-1 --user a", 1, "producer_byte_rate"),
        ("quota set nope=1 --user a", 1, "nope"),
        ("quota set producer_byte_rate=1 --ip 127.0.0.1", 1, "producer_byte_rate"),
        ("quota set connection_creation_rate=1 --user a", 1, "connection_creation_rate"),
        ("quota set connection_creation_rate=1 --ip nonsense", 1, "nonsense"),
        ("quota set connection_creation_rate=1 --ip 127.0.0.1 --user a", 1, ""),
        ("quota set producer_byte_rate=1 producer_byte_rate=2 --user a", 2, "producer_byte_rate is given twice"),
        ("quota set producer_byte_rate=1 --usr a", 2, "did you mean --user?"),
        ("quota remove", 2, "required: QUOTA"),
        ("quota remove producer_byte_rate", 2, "entity is missing"),
        ("quota list a", 2, "unknown arguments: a"),
        ("quota list --ip 127.0.0.1 --user a", 1, ""),
        ("features upgrade", 2, "required: FEATURE=LEVEL"),
        ("features upgrade transaction.version", 2, "'transaction.version' is not like transaction.version=2"),
        ("features upgrade transaction.version=x", 2, "'transaction.version=x' is not like"),
        ("features upgrade transaction.version=99", 1, "transaction.version"),
        ("features upgrade nope=1", 1, "nope"),
        ("features downgrade transaction.version=99", 1, "transaction.version"),
        ("features upgrade transaction.version=1 transaction.version=2", 2, "transaction.version is given twice"),
        ("features upgrade transaction.version=99999999999", 2, "99999999999"),
        ("features describe x", 2, "unknown arguments: x"),
        ("features upgrade transaction.version=2 --unsafe", 2, "unknown arguments: --unsafe"),
        ("transactions describe", 2, "required: ID"),
        ("transactions describe none", 1, "TRANSACTIONAL_ID_NOT_FOUND"),
        ("transactions list --state Nope", 1, "Nope"),
        ("transactions list --producer-id x", 2, "invalid int value: 'x'"),
        ("transactions list --pattern '['", 1, "INVALID_REGULAR_EXPRESSION"),
        ("transactions list --min-open-ms soon", 2, "invalid int value: 'soon'"),
        ("transactions find-hanging --topic none", 1, "UNKNOWN_TOPIC_OR_PARTITION"),
        ("transactions abort", 2, "the transaction is missing: give --transactional-id"),
        ("transactions abort --topic t --partition 0", 2, "the transaction is missing"),
        ("transactions abort --transactional-id x --topic t", 2, "the transaction is missing"),
        ("transactions abort --transactional-id none", 1, "TRANSACTIONAL_ID_NOT_FOUND"),
        ("transactions abort --topic t --partition 0 --start-offset 5 --producer-id 3", 2, "the transaction is missing"),
        ("transactions abort --topic none --partition 0 --start-offset 5", 1, "UNKNOWN_TOPIC_OR_PARTITION"),
        ("transactions abort --topic none --partition x", 2, "invalid int value: 'x'"),
    ],
)
def test_a_mistake_of_somebody_who_may_do_everything(
    commands: Commands, files: dict[str, str], line: str, code: int, sentence: str
) -> None:
    words = line if "--data-dir" in line or " -b " in line else f"{line} --command-config {files['root']}"
    commands.check_mistake(words, code, sentence)
    assert commands.run(f"acl list --json --command-config {files['root']}").out == ""
    assert commands.run(f"quota list --json --command-config {files['root']}").out == ""


CLUSTER = "CLUSTER_AUTHORIZATION_FAILED"


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("acl list", CLUSTER),
        ("acl add User:alice all cluster kafka-cluster", CLUSTER),
        ("acl remove User:alice all topic t", CLUSTER),
        ("user list", CLUSTER),
        ("user remove root", CLUSTER),
        ("quota list", CLUSTER),
        ("quota set producer_byte_rate=1 --user root", CLUSTER),
        ("quota remove producer_byte_rate --user root", CLUSTER),
        ("features upgrade transaction.version=2", CLUSTER),
        ("transactions describe x", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"),
        ("transactions abort --transactional-id x", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"),
        ("transactions abort --topic t --partition 0 --start-offset 3", "TOPIC_AUTHORIZATION_FAILED"),
        ("config get topic/t", "Settings of topic t: TOPIC_AUTHORIZATION_FAILED"),
        ("config get broker/1", "Settings of broker 1: CLUSTER_AUTHORIZATION_FAILED"),
        ("config get loggers/1", "Loggers of broker 1: CLUSTER_AUTHORIZATION_FAILED"),
        ("config get group/g", "Settings of group g: GROUP_AUTHORIZATION_FAILED"),
        ("config set topic/t retention.ms=1", "Settings of topic t: TOPIC_AUTHORIZATION_FAILED"),
        ("config set 'broker/*' log.retention.ms=1", "Settings of all brokers: CLUSTER_AUTHORIZATION_FAILED"),
        ("config set loggers/1 root=DEBUG", "Loggers of broker 1: CLUSTER_AUTHORIZATION_FAILED"),
        ("config set client-metrics/m interval.ms=1000", "Client metrics subscription m: CLUSTER_AUTHORIZATION_FAILED"),
        ("config unset topic/t retention.ms", "TOPIC_AUTHORIZATION_FAILED"),
        ("config list", CLUSTER),
        ("cluster status", CLUSTER),
        ("cluster brokers", CLUSTER),
        ("cluster quorum", CLUSTER),
        ("cluster elect", CLUSTER),
        ("cluster unregister 7 --yes", CLUSTER),
        ("logdirs", CLUSTER),
        ("logdirs --replicas", CLUSTER),
        ("logdirs --topic t", "TOPIC_AUTHORIZATION_FAILED"),
        ("token create --owner User:root", "DELEGATION_TOKEN_AUTHORIZATION_FAILED"),
        ("token renew none", "There is no delegation token none that this user may describe"),
        ("metrics clients", CLUSTER),
        ("bench produce t", "There is no topic t that this user may describe"),
        ("bench consume t", "There is no topic t that this user may describe"),
        ("bench produce t --create", "TOPIC_AUTHORIZATION_FAILED"),
    ],
)
def test_a_right_that_is_missing_is_named(commands: Commands, files: dict[str, str], line: str, sentence: str) -> None:
    commands.check_mistake(f"{line} --command-config {files['alice']}", 1, sentence)


LINES = ["acl list", "token list", "config list", "cluster status", "quota list --user a", "metrics clients"]


@pytest.mark.parametrize(
    ("file", "code", "sentence"),
    [
        ("stranger", 1, "refused the login by PLAIN (The name or the password is wrong)"),
        ("mechanism", 1, "SCRAM-SHA-256"),
        ("needless", 1, "requires no authentication: set security.protocol to PLAINTEXT or SSL"),
        ("nameless", 2, "PLAIN logs in with a name and a password"),
        ("closed", 1, "127.0.0.1:1 could be reached"),
    ],
)
@pytest.mark.parametrize("line", one_of_each(LINES, seconds=3))
def test_a_login_that_fails_is_one_sentence(
    commands: Commands, files: dict[str, str], line: str, file: str, code: int, sentence: str
) -> None:
    commands.check_mistake(f"{line} --command-config {files[file]}", code, sentence)
