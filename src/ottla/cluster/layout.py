"""The paths and JSON of the registry's entries: the ZooKeeper layout of Kafka 0.8 to 3.x, with topic ids.

Other tools read these entries, so names, versions and the order of keys follow Kafka's.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from json import JSONDecoder, dumps
from math import isfinite
from typing import Any, NoReturn

BROKERS = "/brokers/ids"
TOPICS = "/brokers/topics"
TOPIC_CONFIGS = "/config/topics"
BROKER_CONFIGS = "/config/brokers"
GROUP_CONFIGS = "/config/groups"
CLIENT_METRICS_CONFIGS = "/config/client-metrics"
USER_CONFIGS = "/config/users"
CLIENT_CONFIGS = "/config/clients"
IP_CONFIGS = "/config/ips"
OTHER_CONFIGS = (GROUP_CONFIGS, CLIENT_METRICS_CONFIGS, USER_CONFIGS, CLIENT_CONFIGS, IP_CONFIGS)
"""The parents of settings, except those of topics and brokers."""
DEFAULT_ENTRY = "<default>"
CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
CLUSTER_ID = "/cluster/id"
CONSUMERS = "/consumers"
FEATURES = "/feature"
PRODUCER_ID_BLOCK = "/latest_producer_id_block"
DELEGATION_TOKENS = "/delegation_token/tokens"
DELEGATION_TOKEN_VERSION = 3
ACLS = {3: "/kafka-acl", 4: "/kafka-acl-extended/prefixed"}
"""The directories of ACLs, by Kafka's number of the pattern type: 3 is literal, 4 is prefixed."""
BROKER_SEQUENCE = "/brokers/seqid"
BROKER_EPOCHS = "/ottla/broker_epochs"
"""The parent of one entry per broker: the broker's newest epoch, which brokers of Ottla write when they register."""
SEEN_BROKERS = "/ottla/seen_brokers"
"""The epochs of the brokers whose registrations the last controller that runs Ottla has processed."""
ACCEPTED_LOSSES = "/ottla/accepted_losses"
"""The parent of one entry for each broker whose data directory an operator has accepted as lost."""
UNKNOWN_USERS = "/ottla/unknown_users"
"""The secret from which brokers derive the SCRAM salts of users that do not exist."""
PERSISTENT = (
    CONSUMERS, BROKERS, TOPICS, "/config/changes", "/admin/delete_topics", BROKER_SEQUENCE, "/isr_change_notification",
    PRODUCER_ID_BLOCK, "/log_dir_event_notification", TOPIC_CONFIGS, CLIENT_CONFIGS, USER_CONFIGS, BROKER_CONFIGS, IP_CONFIGS,
)  # fmt: skip
"""The entries without a value that a starting broker creates if they are missing."""

SEPARATORS = (",", ":")
NONE: Mapping[int, Sequence[int]] = {}
_ESCAPED = re.compile(rb"[^a-zA-Z0-9._-]+")
_ESCAPED_IN_ACLS = re.compile(rb"[^a-zA-Z0-9._*:-]+")

_ESCAPES = re.compile(rb"(?:%[0-9A-Fa-f]{2})+|%")

NOT_UNDERSTOOD = (ValueError, LookupError, TypeError, AttributeError)
"""The exceptions that parsing an invalid entry can raise. `why` turns them into text for people."""
LARGEST = 2**31 - 1
"""The largest broker id, epoch or partition index."""
LONGEST_TEXT_BYTES = 32_767
LONGEST_NAME_BYTES = 4096
"""The longest stored name of a user, client id, principal or ACL resource, in bytes, because ZooKeeper's entries are small."""


def broker_path(node_id: int) -> str:
    return f"{BROKERS}/{node_id}"


def broker_epoch_path(node_id: int) -> str:
    return f"{BROKER_EPOCHS}/{node_id}"


def accepted_loss_path(node_id: int) -> str:
    return f"{ACCEPTED_LOSSES}/{node_id}"


def topic_path(name: str) -> str:
    return f"{TOPICS}/{name}"


def partitions_path(name: str) -> str:
    return f"{TOPICS}/{name}/partitions"


def state_path(name: str, index: int) -> str:
    return f"{TOPICS}/{name}/partitions/{index}/state"


def topic_config_path(name: str) -> str:
    return f"{TOPIC_CONFIGS}/{name}"


def broker_config_path(node_id: int | None) -> str:
    """Return the path of one broker's settings; with None, the path of the defaults for all brokers."""
    return f"{BROKER_CONFIGS}/{DEFAULT_ENTRY if node_id is None else node_id}"


def consumer_offset_path(group_id: str, topic: str, index: int) -> str | None:
    """Return the path of an offset committed by a consumer of release 0.8; None if the group id cannot be an entry's name."""
    if not group_id or group_id in (".", "..") or "/" in group_id or not group_id.isprintable():
        return None
    return f"{CONSUMERS}/{group_id}/offsets/{topic}/{index}"


def group_config_path(group_id: str) -> str:
    return f"{GROUP_CONFIGS}/{_escape(group_id)}"


def client_metrics_config_path(subscription: str) -> str:
    return f"{CLIENT_METRICS_CONFIGS}/{_escape(subscription)}"


def user_config_path(user: str) -> str:
    """Return the path of a user's settings, quotas and credentials. The empty name means the default for users without an entry."""
    return f"{USER_CONFIGS}/{_entry(user)}"


def user_client_config_path(user: str, client_id: str) -> str:
    return f"{USER_CONFIGS}/{_entry(user)}/clients/{_entry(client_id)}"


def client_config_path(client_id: str) -> str:
    return f"{CLIENT_CONFIGS}/{_entry(client_id)}"


def ip_config_path(ip: str) -> str:
    return f"{IP_CONFIGS}/{_entry(ip)}"


def _entry(name: str) -> str:
    return _escape(name) if name else DEFAULT_ENTRY


def acl_path(pattern: int, kind: str, name: str) -> str:
    return f"{ACLS[pattern]}/{kind}/{_escape(name, _ESCAPED_IN_ACLS)}"


def is_too_long(*names: str) -> bool:
    """Return whether any name is longer than `LONGEST_NAME_BYTES`."""
    return any(len(name) > LONGEST_NAME_BYTES or len(name.encode()) > LONGEST_NAME_BYTES for name in names)


def _escape(name: str, escaped: re.Pattern[bytes] = _ESCAPED) -> str:
    """Return a text escaped as the name of an entry: bytes that match `escaped`, and a leading dot, become %XX."""
    written = escaped.sub(_hexadecimal, name.encode()).decode()
    return "%2E" + written[1:] if written.startswith(".") else written


def _hexadecimal(found: re.Match[bytes]) -> bytes:
    return b"%" + found[0].hex("%").upper().encode()


def name_in(entry: str) -> str:
    """Return the name of a group, user or client from an entry's escaped name; the empty name for `DEFAULT_ENTRY`.

    Raises `ValueError` if the name is not UTF-8, or contains a percent sign without two hexadecimal digits.
    """
    if entry == DEFAULT_ENTRY:
        return ""
    return _ESCAPES.sub(_bytes, entry.encode()).decode()


def _bytes(found: re.Match[bytes]) -> bytes:
    return bytes.fromhex(found[0].replace(b"%", b"").decode() or "%")


def delegation_token_path(token_id: str) -> str:
    return f"{DELEGATION_TOKENS}/{token_id}"


def uuid_text(uuid: bytes) -> str:
    """Return 16 bytes as Kafka writes them: URL-safe base64 without padding, 22 characters."""
    return urlsafe_b64encode(uuid).rstrip(b"=").decode()


def uuid_bytes(text: str) -> bytes:
    """Decode the text of `uuid_text`. Raises `ValueError` if it is not the base64 of 16 bytes."""
    uuid = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if len(uuid) != 16:
        raise ValueError(f"{text!r} is not a topic id")
    return uuid


def cluster_id_json(cluster_id: str) -> bytes:
    return json_bytes({"version": "1", "id": cluster_id})


def member_json(
    endpoints: Sequence[tuple[str, str, int, str]],
    rack: str | None,
    wall_ms: int,
    version: int,
    features: Mapping[str, int],
) -> bytes:
    """Encode the registration of a cluster's broker in JSON version 2 to 5.

    `endpoints` are (listener, host, port, security protocol). `features` are the highest feature levels that the broker supports.

    Old clients read only the fields `host` and `port`, and connect without security. The fields contain the first PLAINTEXT
    listener, or null and -1 without one.
    """
    plain = ((host, port) for _, host, port, security in endpoints if security == "PLAINTEXT")
    host, port = next(plain, (None, -1))
    shown = [f"{name}://{f'[{host}]' if ':' in host else host}:{port}" for name, host, port, _ in endpoints]
    value: dict[str, Any] = {
        "features": {name: {"min_version": 1, "max_version": highest} for name, highest in features.items()},
        "listener_security_protocol_map": {name: security for name, _, _, security in endpoints},
        "endpoints": shown,
        "rack": rack,
        "jmx_port": -1,
        "port": port,
        "host": host,
        "version": version,
        "timestamp": str(wall_ms),
    }
    since = {"features": 5, "listener_security_protocol_map": 4, "rack": 3}
    left_out = {name for name, first in since.items() if version < first} | ({"rack"} if rack is None else set())
    return json_bytes({name: one for name, one in value.items() if name not in left_out})


def topic_json(
    topic_id: bytes,
    replicas: Mapping[int, Sequence[int]],
    adding: Mapping[int, Sequence[int]] = NONE,
    removing: Mapping[int, Sequence[int]] = NONE,
) -> bytes:
    """Encode the entry of a topic from the `replicas` of each partition, and the brokers that a reassignment adds and removes.

    An id of zeros is left out, as in releases before 2.8. Ten thousand partitions have few distinct lists of replicas, so each list
    is encoded only once.
    """
    kinds = {kind: dumps(kind, separators=SEPARATORS) for kind in set(map(tuple, replicas.values()))}
    places = ",".join([f'"{index}":{kinds[tuple(nodes)]}' for index, nodes in replicas.items()])
    identified = f'"topic_id":"{uuid_text(topic_id)}",' if any(topic_id) else ""
    added, removed = (dumps(moving, separators=SEPARATORS) for moving in (adding, removing))
    return f'{{"removing_replicas":{removed},"partitions":{{{places}}},{identified}"adding_replicas":{added},"version":3}}'.encode()


def state_json(controller_epoch: int, leader: int, leader_epoch: int, isr: Sequence[int], recovery_state: int = 0) -> bytes:
    """Encode the state of a partition. The recovery state RECOVERED, 0, is left out, as in releases before 3.2."""
    value = {"controller_epoch": controller_epoch, "leader": leader, "version": 1, "leader_epoch": leader_epoch, "isr": isr}
    return json_bytes(value | {"leader_recovery_state": recovery_state} if recovery_state else value)


def config_json(configs: Mapping[str, str]) -> bytes:
    return json_bytes({"version": 1, "config": dict(configs)})


def configs_in(value: bytes | None) -> dict[str, str]:
    """Return the configs in an entry. Raises an exception of `NOT_UNDERSTOOD` if it is invalid."""
    return {str(name): str(text) for name, text in read(value)["config"].items()} if value else {}


def acls_json(rules: Sequence[Mapping[str, str]]) -> bytes:
    """Encode the ACLs of one resource pattern. Each ACL has the keys principal, permissionType, operation and host."""
    return json_bytes({"version": 1, "acls": [dict(rule) for rule in rules]})


def controller_json(node_id: int, wall_ms: int) -> bytes:
    return json_bytes({"version": 2, "brokerid": node_id, "timestamp": str(wall_ms), "kraftControllerEpoch": -1})


def producer_id_block_json(node_id: int, first: int, last: int) -> bytes:
    """Encode a block of producer ids, from `first` to `last` inclusive. Both are strings in the JSON, as in Kafka."""
    return json_bytes({"version": 1, "broker": node_id, "block_start": str(first), "block_end": str(last)})


def features_json(levels: Mapping[str, int], version: int = 2) -> bytes:
    """Encode the finalized levels of the features that are not off. Kafka 2.7 to 3.2 use version 1."""
    features = {name: {"max_version_level": level} for name, level in levels.items()}
    if version == 1:
        features = {name: {"min_version_level": 1, **one} for name, one in features.items()}
    return json_bytes({"features": features, "version": version, "status": 1})


def delegation_token_json(people: tuple[str, str, Sequence[str]], times_ms: tuple[int, int, int], token_id: str) -> bytes:
    """Encode a delegation token. `people` are owner, requester and renewers; `times_ms` the issue, maximum and expiry times."""
    owner, requester, renewers = people
    return json_bytes(
        {
            "version": DELEGATION_TOKEN_VERSION,
            "owner": _escape(owner),
            "tokenRequester": _escape(requester),
            "renewers": [_escape(renewer) for renewer in renewers],
            "issueTimestamp": times_ms[0],
            "maxTimestamp": times_ms[1],
            "expiryTimestamp": times_ms[2],
            "tokenId": token_id,
        }
    )


def read(value: bytes) -> dict[str, Any]:
    """Parse the JSON object of an entry. Raises `ValueError` for anything else, and for text or numbers that no request can carry.

    Tools and people write entries too, so callers handle the exceptions of invalid values.
    """
    try:
        found = _DECODER.decode(value.decode())
    except RecursionError:
        raise ValueError("it nests too deeply") from None
    if not isinstance(found, dict):
        raise ValueError("it is not a JSON object")
    if b"\\ud" in value or b"\\uD" in value:
        dumps(found, ensure_ascii=False).encode()  # raises ValueError for half of a surrogate pair, which UTF-8 cannot encode
    return found


def why(error: Exception) -> str:
    """Return the reason why an entry cannot be parsed, from an exception of `NOT_UNDERSTOOD`, as a message to people."""
    if isinstance(error, KeyError):
        return f"{error} is missing, or unknown"
    return str(error) if isinstance(error, ValueError) else "a part of it has another type than Kafka writes"


def whole(value: object, lowest: int = 0, highest: int = LARGEST) -> int:
    """Check and return an integer of an entry. Raises `ValueError` unless it is an `int` from `lowest` to `highest`."""
    if type(value) is not int or not lowest <= value <= highest:
        raise ValueError(f"{str(value)[:40]!r} is not a whole number from {lowest} to {highest}")
    return value


def nodes(value: object) -> tuple[int, ...]:
    """Check and return a list of broker ids of an entry. Raises `ValueError` if an id is invalid or occurs twice."""
    if not isinstance(value, list):
        raise ValueError(f"{str(value)[:40]!r} is not a list of brokers")
    found = tuple(whole(one) for one in value)
    if len(set(found)) < len(found):
        raise ValueError(f"a broker is listed twice: {str(value)[:40]}")
    return found


def text(value: object) -> str:
    """Check and return a string of an entry. Raises `ValueError` if it is not a string, or is too long for a field of a request."""
    if not isinstance(value, str) or len(value.encode()) > LONGEST_TEXT_BYTES:
        raise ValueError(f"{str(value)[:40]!r} is not a string of at most {LONGEST_TEXT_BYTES} bytes")
    return value


def _finite(written: str) -> float:
    found = float(written)
    if not isfinite(found):
        raise ValueError(f"{written[:40]} is too large")
    return found


def _no_number(written: str) -> NoReturn:
    raise ValueError(f"{written} is not JSON")


_DECODER = JSONDecoder(parse_float=_finite, parse_constant=_no_number)


def size_in_json(text: str) -> int:
    """Return an upper limit for the size of a text in JSON, in bytes.

    All characters except printable ASCII are escaped, with up to 12 bytes per character.
    """
    is_plain = text.isascii() and text.isprintable() and '"' not in text and "\\" not in text
    return len(text) if is_plain else 3 * len(text.encode("utf-16-le"))


def json_bytes(value: object) -> bytes:
    """Encode a value as Kafka does: JSON without spaces."""
    return dumps(value, separators=SEPARATORS).encode()
