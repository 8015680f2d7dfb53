"""Answers of Ottla to requests of administration that are not those of Apache Kafka 4.3, each with the reason."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

Change = Callable[[Any], Any]


def _code(name: str) -> Change:
    """Return a change of an answer that has one error code, wherever it is."""

    def changed(answer: Any) -> Any:
        if isinstance(answer, dict):
            return {key: name if key == "error_code" and value != "NONE" else changed(value) for key, value in answer.items()}
        return [changed(one) for one in answer] if isinstance(answer, list) else answer

    return changed


def _field(path: str, value: Any) -> Change:
    """Return a change of the field at `path`."""
    head, _, rest = path.partition(".")

    def changed(answer: Any) -> Any:
        if isinstance(answer, list):
            return [_field(rest, value)(one) if head == "*" else one for one in answer]
        return answer | {head: _field(rest, value)(answer[head]) if rest else value}

    return changed


def _made(answer: Any) -> Any:
    """Return the answer to a change that is made."""
    return answer | {"responses": [one | {"error_code": "NONE", "error_message": None} for one in answer["responses"]]}


MEANT = "A number that the protocol does not define is the client's fault; Kafka's controller fails."
HIDDEN = "A client without rights is refused before the type of the resource is checked."
CLASSES = "There are no Java classes to load: the setting is kept without effect."
EMPTY = "A topic without results is left out."
ONCE = "A partition has one result, however often it is named."
BETTER = "Kafka's handler fails."

DIFFERENCES: Mapping[str, tuple[str, Change]] = {
    "32 v4: described after alterations": (
        "An entry of a list that is there twice is kept once, in every list.",
        lambda answer: json.loads(json.dumps(answer).replace("0:1,0:1", "0:1")),
    ),
    "33 v2: replaced 8 without rights": (HIDDEN, _code("CLUSTER_AUTHORIZATION_FAILED")),
    "33 v2: replaced 64 without rights": (HIDDEN, _code("CLUSTER_AUTHORIZATION_FAILED")),
    "44 v1: altered topic: operation 4": (MEANT, _code("INVALID_REQUEST")),
    "44 v1: altered topic: operation -1": (MEANT, _code("INVALID_REQUEST")),
    "44 v1: altered loggers: operation 9": (MEANT, _code("INVALID_REQUEST")),
    "44 v1: broker 1: metric.reporters=nobody": (CLASSES, _made),
    "44 v1: broker default: metric.reporters=nobody": (CLASSES, _made),
    "57 v1: group.version to 1": ("A success has no text.", _field("results.*.error_message", None)),
    "38 v3: a token with a name alone": (
        BETTER,
        lambda answer: (
            answer
            | {
                "error_code": "INVALID_PRINCIPAL_TYPE",
                "principal_type": "",
                "principal_name": "other",
                "token_requester_principal_name": "admin",
            }
        ),
    ),
    "37 v2: partitions: very many": (BETTER, _code("POLICY_VIOLATION")),
    "37 v3: partitions without time": (
        "What is refused at once needs no time.",
        _code("UNKNOWN_TOPIC_OR_PARTITION"),
    ),
    "43 v2: elected: all": (EMPTY, _field("replica_election_results", [])),
    "43 v2: elected: no partition": (EMPTY, _field("replica_election_results", [])),
    "61 v0: producers of no partition": (EMPTY, _field("topics", [])),
    "21 v2: records deleted: of no partition": (
        "The topic is named in the answer, although it has no results.",
        _field("topics", [{"name": "records", "partitions": []}]),
    ),
    "43 v2: elected: a partition twice": (
        ONCE,
        lambda answer: (
            answer
            | {
                "replica_election_results": [
                    one | {"partition_result": one["partition_result"][:1]} for one in answer["replica_election_results"]
                ]
            }
        ),
    ),
    "43 v2: elected: a topic twice": (
        "A topic has one list of results, however often it is named.",
        lambda answer: (
            answer
            | {
                "replica_election_results": [
                    {
                        "topic": "plain",
                        "partition_result": [
                            part for one in answer["replica_election_results"] for part in one["partition_result"]
                        ],
                    }
                ]
            }
        ),
    ),
    "45 v1: reassigned of nothing": ("A success has no text.", _field("error_message", None)),
    "45 v1: reassigned without rights": (
        "The error of the request says all: clients read it first.",
        _field("responses", []),
    ),
    "75 v0: partitions described: no name": (
        BETTER,
        lambda answer: {
            "topics": [answer["topics"][0] | {"error_code": "INVALID_TOPIC_EXCEPTION", "topic_authorized_operations": 3576}],
            "next_cursor": None,
        },
    ),
}
"""Case -> the reason, and how Ottla's answer is made from Kafka's."""


def expected(seen: Mapping[str, Any], name: str) -> Any:
    """Return the answer that Ottla is to give, from the answers that Apache Kafka was seen to give."""
    return DIFFERENCES[name][1](seen[name]) if name in DIFFERENCES else seen[name]
