"""The error codes of the protocol: name, whether a retry can succeed, and a sentence that says what to do.

Each code is an int constant (`from ottla.wire.errors import NONE, CORRUPT_MESSAGE`). The table `ERRORS` describes each code. Other
modules decide which response has which code.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Error(NamedTuple):
    """One error code. `retriable` says that the same request can succeed later, perhaps after a refresh of the metadata."""

    code: int
    name: str
    retriable: bool
    sentence: str


UNKNOWN_SERVER_ERROR: Final = -1
NONE: Final = 0
OFFSET_OUT_OF_RANGE: Final = 1
CORRUPT_MESSAGE: Final = 2
UNKNOWN_TOPIC_OR_PARTITION: Final = 3
INVALID_FETCH_SIZE: Final = 4
LEADER_NOT_AVAILABLE: Final = 5
NOT_LEADER_OR_FOLLOWER: Final = 6
REQUEST_TIMED_OUT: Final = 7
BROKER_NOT_AVAILABLE: Final = 8
REPLICA_NOT_AVAILABLE: Final = 9
MESSAGE_TOO_LARGE: Final = 10
STALE_CONTROLLER_EPOCH: Final = 11
OFFSET_METADATA_TOO_LARGE: Final = 12
NETWORK_EXCEPTION: Final = 13
COORDINATOR_LOAD_IN_PROGRESS: Final = 14
COORDINATOR_NOT_AVAILABLE: Final = 15
NOT_COORDINATOR: Final = 16
INVALID_TOPIC_EXCEPTION: Final = 17
RECORD_LIST_TOO_LARGE: Final = 18
NOT_ENOUGH_REPLICAS: Final = 19
NOT_ENOUGH_REPLICAS_AFTER_APPEND: Final = 20
INVALID_REQUIRED_ACKS: Final = 21
ILLEGAL_GENERATION: Final = 22
INCONSISTENT_GROUP_PROTOCOL: Final = 23
INVALID_GROUP_ID: Final = 24
UNKNOWN_MEMBER_ID: Final = 25
INVALID_SESSION_TIMEOUT: Final = 26
REBALANCE_IN_PROGRESS: Final = 27
INVALID_COMMIT_OFFSET_SIZE: Final = 28
TOPIC_AUTHORIZATION_FAILED: Final = 29
GROUP_AUTHORIZATION_FAILED: Final = 30
CLUSTER_AUTHORIZATION_FAILED: Final = 31
INVALID_TIMESTAMP: Final = 32
UNSUPPORTED_SASL_MECHANISM: Final = 33
ILLEGAL_SASL_STATE: Final = 34
UNSUPPORTED_VERSION: Final = 35
TOPIC_ALREADY_EXISTS: Final = 36
INVALID_PARTITIONS: Final = 37
INVALID_REPLICATION_FACTOR: Final = 38
INVALID_REPLICA_ASSIGNMENT: Final = 39
INVALID_CONFIG: Final = 40
NOT_CONTROLLER: Final = 41
INVALID_REQUEST: Final = 42
UNSUPPORTED_FOR_MESSAGE_FORMAT: Final = 43
POLICY_VIOLATION: Final = 44
OUT_OF_ORDER_SEQUENCE_NUMBER: Final = 45
DUPLICATE_SEQUENCE_NUMBER: Final = 46
INVALID_PRODUCER_EPOCH: Final = 47
INVALID_TXN_STATE: Final = 48
INVALID_PRODUCER_ID_MAPPING: Final = 49
INVALID_TRANSACTION_TIMEOUT: Final = 50
CONCURRENT_TRANSACTIONS: Final = 51
TRANSACTION_COORDINATOR_FENCED: Final = 52
TRANSACTIONAL_ID_AUTHORIZATION_FAILED: Final = 53
SECURITY_DISABLED: Final = 54
OPERATION_NOT_ATTEMPTED: Final = 55
KAFKA_STORAGE_ERROR: Final = 56
LOG_DIR_NOT_FOUND: Final = 57
SASL_AUTHENTICATION_FAILED: Final = 58
UNKNOWN_PRODUCER_ID: Final = 59
REASSIGNMENT_IN_PROGRESS: Final = 60
DELEGATION_TOKEN_AUTH_DISABLED: Final = 61
DELEGATION_TOKEN_NOT_FOUND: Final = 62
DELEGATION_TOKEN_OWNER_MISMATCH: Final = 63
DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: Final = 64
DELEGATION_TOKEN_AUTHORIZATION_FAILED: Final = 65
DELEGATION_TOKEN_EXPIRED: Final = 66
INVALID_PRINCIPAL_TYPE: Final = 67
NON_EMPTY_GROUP: Final = 68
GROUP_ID_NOT_FOUND: Final = 69
FETCH_SESSION_ID_NOT_FOUND: Final = 70
INVALID_FETCH_SESSION_EPOCH: Final = 71
LISTENER_NOT_FOUND: Final = 72
TOPIC_DELETION_DISABLED: Final = 73
FENCED_LEADER_EPOCH: Final = 74
UNKNOWN_LEADER_EPOCH: Final = 75
UNSUPPORTED_COMPRESSION_TYPE: Final = 76
STALE_BROKER_EPOCH: Final = 77
OFFSET_NOT_AVAILABLE: Final = 78
MEMBER_ID_REQUIRED: Final = 79
PREFERRED_LEADER_NOT_AVAILABLE: Final = 80
GROUP_MAX_SIZE_REACHED: Final = 81
FENCED_INSTANCE_ID: Final = 82
ELIGIBLE_LEADERS_NOT_AVAILABLE: Final = 83
ELECTION_NOT_NEEDED: Final = 84
NO_REASSIGNMENT_IN_PROGRESS: Final = 85
GROUP_SUBSCRIBED_TO_TOPIC: Final = 86
INVALID_RECORD: Final = 87
UNSTABLE_OFFSET_COMMIT: Final = 88
THROTTLING_QUOTA_EXCEEDED: Final = 89
PRODUCER_FENCED: Final = 90
RESOURCE_NOT_FOUND: Final = 91
DUPLICATE_RESOURCE: Final = 92
UNACCEPTABLE_CREDENTIAL: Final = 93
INCONSISTENT_VOTER_SET: Final = 94
INVALID_UPDATE_VERSION: Final = 95
FEATURE_UPDATE_FAILED: Final = 96
PRINCIPAL_DESERIALIZATION_FAILURE: Final = 97
SNAPSHOT_NOT_FOUND: Final = 98
POSITION_OUT_OF_RANGE: Final = 99
UNKNOWN_TOPIC_ID: Final = 100
DUPLICATE_BROKER_REGISTRATION: Final = 101
BROKER_ID_NOT_REGISTERED: Final = 102
INCONSISTENT_TOPIC_ID: Final = 103
INCONSISTENT_CLUSTER_ID: Final = 104
TRANSACTIONAL_ID_NOT_FOUND: Final = 105
FETCH_SESSION_TOPIC_ID_ERROR: Final = 106
INELIGIBLE_REPLICA: Final = 107
NEW_LEADER_ELECTED: Final = 108
OFFSET_MOVED_TO_TIERED_STORAGE: Final = 109
FENCED_MEMBER_EPOCH: Final = 110
UNRELEASED_INSTANCE_ID: Final = 111
UNSUPPORTED_ASSIGNOR: Final = 112
STALE_MEMBER_EPOCH: Final = 113
MISMATCHED_ENDPOINT_TYPE: Final = 114
UNSUPPORTED_ENDPOINT_TYPE: Final = 115
UNKNOWN_CONTROLLER_ID: Final = 116
UNKNOWN_SUBSCRIPTION_ID: Final = 117
TELEMETRY_TOO_LARGE: Final = 118
INVALID_REGISTRATION: Final = 119
TRANSACTION_ABORTABLE: Final = 120
INVALID_RECORD_STATE: Final = 121
SHARE_SESSION_NOT_FOUND: Final = 122
INVALID_SHARE_SESSION_EPOCH: Final = 123
FENCED_STATE_EPOCH: Final = 124
INVALID_VOTER_KEY: Final = 125
DUPLICATE_VOTER: Final = 126
VOTER_NOT_FOUND: Final = 127
INVALID_REGULAR_EXPRESSION: Final = 128
REBOOTSTRAP_REQUIRED: Final = 129
STREAMS_INVALID_TOPOLOGY: Final = 130
STREAMS_INVALID_TOPOLOGY_EPOCH: Final = 131
STREAMS_TOPOLOGY_FENCED: Final = 132
SHARE_SESSION_LIMIT_REACHED: Final = 133
GROUP_DELETION_FAILED: Final = 134
STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED: Final = 135
CONTROLLER_ID_NOT_REGISTERED: Final = 136

_RETRIABLE: Final = frozenset(
    {
        CORRUPT_MESSAGE,
        UNKNOWN_TOPIC_OR_PARTITION,
        LEADER_NOT_AVAILABLE,
        NOT_LEADER_OR_FOLLOWER,
        REQUEST_TIMED_OUT,
        REPLICA_NOT_AVAILABLE,
        NETWORK_EXCEPTION,
        COORDINATOR_LOAD_IN_PROGRESS,
        COORDINATOR_NOT_AVAILABLE,
        NOT_COORDINATOR,
        NOT_ENOUGH_REPLICAS,
        NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        NOT_CONTROLLER,
        CONCURRENT_TRANSACTIONS,
        KAFKA_STORAGE_ERROR,
        FETCH_SESSION_ID_NOT_FOUND,
        INVALID_FETCH_SESSION_EPOCH,
        LISTENER_NOT_FOUND,
        FENCED_LEADER_EPOCH,
        UNKNOWN_LEADER_EPOCH,
        OFFSET_NOT_AVAILABLE,
        PREFERRED_LEADER_NOT_AVAILABLE,
        ELIGIBLE_LEADERS_NOT_AVAILABLE,
        ELECTION_NOT_NEEDED,
        UNSTABLE_OFFSET_COMMIT,
        THROTTLING_QUOTA_EXCEEDED,
        UNKNOWN_TOPIC_ID,
        INCONSISTENT_TOPIC_ID,
        FETCH_SESSION_TOPIC_ID_ERROR,
        SHARE_SESSION_NOT_FOUND,
        INVALID_SHARE_SESSION_EPOCH,
        SHARE_SESSION_LIMIT_REACHED,
    }
)
_SENTENCES: Final = {
    UNKNOWN_SERVER_ERROR: "The broker met a failure that has no code of its own: read the cause in its log.",
    NONE: "Nothing is wrong.",
    OFFSET_OUT_OF_RANGE: "The offset is outside of the log: start from the earliest or latest offset.",
    CORRUPT_MESSAGE: "A batch does not match its checksum or sizes: send it again, "
    "and check the network and the client if it recurs.",
    UNKNOWN_TOPIC_OR_PARTITION: "The topic or partition does not exist on this broker: check the name, or create the topic.",
    INVALID_FETCH_SIZE: "The size of the fetch is not allowed: request a positive number of bytes.",
    LEADER_NOT_AVAILABLE: "The partition has no leader at the moment: refresh the metadata and try again.",
    NOT_LEADER_OR_FOLLOWER: "This broker does not lead the partition: refresh the metadata and send the request to the leader.",
    REQUEST_TIMED_OUT: "The request was not completed before its timeout: try again, or allow a longer timeout.",
    BROKER_NOT_AVAILABLE: "The broker is not available: refresh the metadata and try another one.",
    REPLICA_NOT_AVAILABLE: "The replica is not on this broker: refresh the metadata and try again.",
    MESSAGE_TOO_LARGE: "The message is larger than the topic allows: send smaller ones or raise max.message.bytes.",
    STALE_CONTROLLER_EPOCH: "The request comes from a controller that has been replaced: send it from the current controller.",
    OFFSET_METADATA_TOO_LARGE: "The metadata stored with an offset is too large: shorten it or raise offset.metadata.max.bytes.",
    NETWORK_EXCEPTION: "The connection ended before the answer came: try again.",
    COORDINATOR_LOAD_IN_PROGRESS: "The coordinator is still reading its state: try again in a moment.",
    COORDINATOR_NOT_AVAILABLE: "The coordinator is not available: find it again and retry.",
    NOT_COORDINATOR: "This broker does not coordinate the group or transaction: find the coordinator again and retry there.",
    INVALID_TOPIC_EXCEPTION: "The topic's name is not allowed: use up to 249 letters, digits, dots, underscores and hyphens; "
    "avoid internal topics.",
    RECORD_LIST_TOO_LARGE: "The batch is larger than a segment: send smaller batches or raise segment.bytes.",
    NOT_ENOUGH_REPLICAS: "Too few replicas are in sync for acks=all: bring replicas back or lower min.insync.replicas, "
    "then try again.",
    NOT_ENOUGH_REPLICAS_AFTER_APPEND: "The records were written, but to fewer replicas than min.insync.replicas: "
    "sending again may write them twice.",
    INVALID_REQUIRED_ACKS: "The acks are none of 0, 1 and -1: correct the producer's setting.",
    ILLEGAL_GENERATION: "The generation is not the current one of the group: join the group again.",
    INCONSISTENT_GROUP_PROTOCOL: "The member's protocols do not fit the group's: "
    "give all members the same type and at least one assignor in common.",
    INVALID_GROUP_ID: "The group id is empty or not allowed: set a group.id.",
    UNKNOWN_MEMBER_ID: "The member is not in the group: join the group again.",
    INVALID_SESSION_TIMEOUT: "The session timeout is outside of the broker's limits: "
    "choose one between group.min and group.max.session.timeout.ms.",
    REBALANCE_IN_PROGRESS: "The group is rebalancing: join it again.",
    INVALID_COMMIT_OFFSET_SIZE: "The commit does not fit into one batch: commit fewer partitions at once or shorten the metadata.",
    TOPIC_AUTHORIZATION_FAILED: "The principal has no permission for this on the topic: request an ACL that allows it.",
    GROUP_AUTHORIZATION_FAILED: "The principal has no permission for this on the group: request an ACL that allows it.",
    CLUSTER_AUTHORIZATION_FAILED: "The principal has no permission for this on the cluster: request an ACL that allows it.",
    INVALID_TIMESTAMP: "A record's timestamp is out of range: correct it, or widen the topic's bounds on timestamps.",
    UNSUPPORTED_SASL_MECHANISM: "The broker does not offer this SASL mechanism: choose one of those it lists.",
    ILLEGAL_SASL_STATE: "The request does not fit the state of the authentication: authenticate first, once, in order.",
    UNSUPPORTED_VERSION: "The broker does not serve this version of the API: use a version that ApiVersions lists.",
    TOPIC_ALREADY_EXISTS: "A topic of this name exists: use it or choose another name.",
    INVALID_PARTITIONS: "The number of partitions is not allowed: give at least 1, and more than there are when adding.",
    INVALID_REPLICATION_FACTOR: "The replication factor is not allowed: choose one from 1 to the number of brokers.",
    INVALID_REPLICA_ASSIGNMENT: "The replica assignment is inconsistent: name existing brokers, each once per partition, "
    "without gaps in the indexes.",
    INVALID_CONFIG: "A config is unknown or its value is not allowed: correct it.",
    NOT_CONTROLLER: "This broker is not the controller: refresh the metadata and send the request to the controller.",
    INVALID_REQUEST: "The request contradicts itself: correct its fields.",
    UNSUPPORTED_FOR_MESSAGE_FORMAT: "The format of the topic's messages cannot do this: use format 2 (0.11 and later).",
    POLICY_VIOLATION: "A policy of the cluster forbids this: change the request to fit it.",
    OUT_OF_ORDER_SEQUENCE_NUMBER: "The batch does not follow the last one of this producer: stop, "
    "and start again with a new producer id.",
    DUPLICATE_SEQUENCE_NUMBER: "The batch was written before: take it as written.",
    INVALID_PRODUCER_EPOCH: "A newer instance of this producer has fenced it: close this one.",
    INVALID_TXN_STATE: "The state of the transaction does not allow this: begin, end or abort it in order.",
    INVALID_PRODUCER_ID_MAPPING: "The producer id does not belong to the transactional id: initialise the producer again.",
    INVALID_TRANSACTION_TIMEOUT: "The transaction timeout is longer than allowed: lower it to transaction.max.timeout.ms or less.",
    CONCURRENT_TRANSACTIONS: "Another change of the same transaction is in progress: try again in a moment.",
    TRANSACTION_COORDINATOR_FENCED: "The transaction coordinator has been replaced: the current one must write the marker.",
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "The principal has no permission for this transactional id: "
    "request an ACL that allows it.",
    SECURITY_DISABLED: "The cluster has no authorizer: configure one before you use ACLs.",
    OPERATION_NOT_ATTEMPTED: "Nothing was attempted, because another part of the request failed: "
    "correct that part and send all of it again.",
    KAFKA_STORAGE_ERROR: "The broker's disk failed or is full: repair it or free space, then try again.",
    LOG_DIR_NOT_FOUND: "The directory is not one of the broker's: name one of log.dirs.",
    SASL_AUTHENTICATION_FAILED: "The credentials were not accepted: check user and password, certificate or token.",
    UNKNOWN_PRODUCER_ID: "The broker has forgotten this producer's state: start again with a new producer id.",
    REASSIGNMENT_IN_PROGRESS: "Partitions are being moved: wait until the reassignment ends, or cancel it.",
    DELEGATION_TOKEN_AUTH_DISABLED: "Delegation tokens are disabled in the cluster: "
    "set delegation.token.secret.key on all brokers first.",
    DELEGATION_TOKEN_NOT_FOUND: "No such delegation token: create one.",
    DELEGATION_TOKEN_OWNER_MISMATCH: "Only the owner and the renewers of the token may do this: log in as one of them.",
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: "Delegation tokens need an authenticated connection of another kind: "
    "use SASL without a token, or TLS both ways.",
    DELEGATION_TOKEN_AUTHORIZATION_FAILED: "The principal has no permission to describe this token: request an ACL that allows it.",
    DELEGATION_TOKEN_EXPIRED: "The token has expired: create a new one.",
    INVALID_PRINCIPAL_TYPE: "The principal's type is not supported: use User.",
    NON_EMPTY_GROUP: "The group has members: stop them first.",
    GROUP_ID_NOT_FOUND: "No such group: check the name.",
    FETCH_SESSION_ID_NOT_FOUND: "The broker has dropped this fetch session: begin a new one.",
    INVALID_FETCH_SESSION_EPOCH: "The epoch of the fetch session is not the expected one: begin a new session.",
    LISTENER_NOT_FOUND: "The leader has no such listener: open it on every broker, or use another one.",
    TOPIC_DELETION_DISABLED: "Deleting topics is disabled: set delete.topic.enable=true.",
    FENCED_LEADER_EPOCH: "The leader epoch given is older than the broker's: refresh the metadata and try again.",
    UNKNOWN_LEADER_EPOCH: "The leader epoch given is newer than the broker's: try again in a moment.",
    UNSUPPORTED_COMPRESSION_TYPE: "The client's version cannot read this compression: use a newer client or another codec.",
    STALE_BROKER_EPOCH: "The broker epoch is old, because the broker has registered again: use the current one.",
    OFFSET_NOT_AVAILABLE: "The leader has no high watermark yet for this offset: try again in a moment.",
    MEMBER_ID_REQUIRED: "The group requires a member id: join again with the one in this response.",
    PREFERRED_LEADER_NOT_AVAILABLE: "The preferred leader is not available: bring it back and try again.",
    GROUP_MAX_SIZE_REACHED: "The group is full: raise group.max.size or run fewer members.",
    FENCED_INSTANCE_ID: "Another member has this group.instance.id now: give each member its own and close this one.",
    ELIGIBLE_LEADERS_NOT_AVAILABLE: "No replica can be elected: bring back one that is in sync and try again.",
    ELECTION_NOT_NEEDED: "The partition already has this leader: no action is needed.",
    NO_REASSIGNMENT_IN_PROGRESS: "No reassignment of this partition is in progress: no action is needed.",
    GROUP_SUBSCRIBED_TO_TOPIC: "The group is subscribed to the topic: unsubscribe before you delete its offsets.",
    INVALID_RECORD: "A record violates the topic's constraints: correct the records named in the response.",
    UNSTABLE_OFFSET_COMMIT: "A transaction with offsets of this group is still open: try again when it has ended.",
    THROTTLING_QUOTA_EXCEEDED: "The quota is exceeded: wait for the throttle time of the response, then try again.",
    PRODUCER_FENCED: "A newer producer with this transactional id has fenced this one: close it.",
    RESOURCE_NOT_FOUND: "The resource does not exist: check its name.",
    DUPLICATE_RESOURCE: "The resource already exists, or occurs twice in the request: send it once.",
    UNACCEPTABLE_CREDENTIAL: "The credential is not allowed: choose another user name, mechanism or number of iterations.",
    INCONSISTENT_VOTER_SET: "The sets of voters differ: give all controllers the same.",
    INVALID_UPDATE_VERSION: "The version of the update is not newer: read the current state, then update that.",
    FEATURE_UPDATE_FAILED: "The features could not be changed: bring all brokers to versions that support them.",
    PRINCIPAL_DESERIALIZATION_FAILURE: "A forwarded principal could not be read: use the same principal builder on all brokers.",
    SNAPSHOT_NOT_FOUND: "No such snapshot: fetch from the one that the leader names.",
    POSITION_OUT_OF_RANGE: "The position is beyond the snapshot's end: start over from one inside.",
    UNKNOWN_TOPIC_ID: "The topic id does not exist on this broker: refresh the metadata and try again.",
    DUPLICATE_BROKER_REGISTRATION: "Another broker is registered with this id: give each broker its own.",
    BROKER_ID_NOT_REGISTERED: "The broker is not registered: register it first.",
    INCONSISTENT_TOPIC_ID: "The topic id is not that of the log: refresh the metadata and try again.",
    INCONSISTENT_CLUSTER_ID: "The request is meant for another cluster: check the addresses.",
    TRANSACTIONAL_ID_NOT_FOUND: "No such transactional id: check the name.",
    FETCH_SESSION_TOPIC_ID_ERROR: "The topic ids of the fetch session are inconsistent: begin a new session.",
    INELIGIBLE_REPLICA: "The replica may not become an in-sync replica: let its broker catch up and be unfenced first.",
    NEW_LEADER_ELECTED: "A new leader was elected by the request: refresh the metadata.",
    OFFSET_MOVED_TO_TIERED_STORAGE: "The offset is in tiered storage: fetch its state from there.",
    FENCED_MEMBER_EPOCH: "The member's epoch is older than the group's: join again from epoch 0.",
    UNRELEASED_INSTANCE_ID: "The member that held this instance id has not left yet: wait for its session to end.",
    UNSUPPORTED_ASSIGNOR: "The broker does not have this assignor: choose one of group.consumer.assignors.",
    STALE_MEMBER_EPOCH: "The member's epoch is not its current one: take it from the last heartbeat and try again.",
    MISMATCHED_ENDPOINT_TYPE: "The address is of the wrong kind: "
    "give brokers to clients of brokers and controllers to those of controllers.",
    UNSUPPORTED_ENDPOINT_TYPE: "This endpoint type is not supported: request brokers or controllers.",
    UNKNOWN_CONTROLLER_ID: "No such controller: check its id.",
    UNKNOWN_SUBSCRIPTION_ID: "The broker has dropped this telemetry subscription: request a new one.",
    TELEMETRY_TOO_LARGE: "The telemetry is larger than allowed: send less.",
    INVALID_REGISTRATION: "The registration was refused: read the cause in the controller's log and correct the broker's settings.",
    TRANSACTION_ABORTABLE: "The transaction cannot continue: abort it and begin a new one.",
    INVALID_RECORD_STATE: "The record is not in a state to be acknowledged: fetch it again.",
    SHARE_SESSION_NOT_FOUND: "The broker has dropped this share session: begin a new one.",
    INVALID_SHARE_SESSION_EPOCH: "The epoch of the share session is not the expected one: begin a new session.",
    FENCED_STATE_EPOCH: "The state has been written under a newer epoch: try again, and it is read anew.",
    INVALID_VOTER_KEY: "The key does not name a voter: check its id and directory id.",
    DUPLICATE_VOTER: "The voter already exists: no action is needed.",
    VOTER_NOT_FOUND: "No such voter: check its id and directory id.",
    INVALID_REGULAR_EXPRESSION: "The regular expression is not valid: correct it, in RE2's syntax.",
    REBOOTSTRAP_REQUIRED: "The client's metadata of the cluster is obsolete: bootstrap again from the configured addresses.",
    STREAMS_INVALID_TOPOLOGY: "The topology cannot be run: correct its source and internal topics.",
    STREAMS_INVALID_TOPOLOGY_EPOCH: "The topology's epoch is not the expected one: send the topology with the right epoch.",
    STREAMS_TOPOLOGY_FENCED: "The member's topology is older than the group's: update the application.",
    SHARE_SESSION_LIMIT_REACHED: "The broker has no room for another share session: try again later.",
    GROUP_DELETION_FAILED: "The group could not be deleted: read the message beside this code and try again.",
    STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED: "The description of the topology could not be stored: "
    "read the message beside this code.",
    CONTROLLER_ID_NOT_REGISTERED: "The controller is not registered: register it first.",
}

ERRORS: Final = {
    code: Error(code, name, code in _RETRIABLE, _SENTENCES[code]) for name, code in list(globals().items()) if isinstance(code, int)
}


def error_name(code: int) -> str:
    """Return the name of an error code. The name of an unknown code is `UNKNOWN_ERROR_` and the number."""
    error = ERRORS.get(code)
    return error.name if error else f"UNKNOWN_ERROR_{code}"
