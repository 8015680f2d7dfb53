"""Where Ottla, being an old release, answers otherwise than that release did, and why it may.

Each entry stands for requests by the pattern of their titles. The test of the emulation wants an entry for each difference, and a
difference for each entry, so that the table only shrinks.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class Difference(NamedTuple):
    """Requests that are answered otherwise: in which releases, which titles, and the cause."""

    releases: str
    titles: str
    cause: str

    def covers(self, release: str, title: str) -> bool:
        return release in self.releases.split() and re.fullmatch(self.titles, title) is not None


OF_0_8_AND_0_9, OF_0_10_AND_0_11, WITH_BATCHES = "0.8.2 0.9.0", "0.10.2 0.11.0", "0.11.0 2.8"

DRAFT = "0.8.2 has a draft of this API that it never served: it stumbles over it, and no client ever sent it."
CHECKED = "Ottla refuses what could not be read again; these releases stored it."
WRONG_CODE = "The release failed without knowing why; Ottla says what is wrong."
WHOLE_READS = "0.10 gives what it reads in one go the compression of its first message; Ottla converts batch by batch."
FILLED_UP = "Kafka since 0.11 keeps to the size that it announced, with a piece of a message; Ottla announces what it sends."
STORED_AS_SENT = (
    "0.8 and 0.9 store messages of magic 1 as they are, for clients to stumble over; Ottla converts them to what was asked for."
)
NO_BROKERS = "0.8.2 names no brokers when the only topic asked about is refused."
JOINED_BADLY = "These releases let members in that name no type or no protocol, or fail on them; later ones and Ottla refuse them."
NAMELESS = "These releases look a group without a name up, and do not find it; later ones and Ottla refuse the name."
DELETION_OFF = "0.10 and 0.11 cannot delete topics by default: they let the request time out; Ottla says so at once."
MECHANISMS = "The release names GSSAPI even where no listener asks anyone to log in."
COORDINATOR_AT_ONCE = "Ottla has a coordinator before anyone asks."
STATE_OF_0_9 = "0.9 has no name for the state of a group without members."
ONE_CODE = "0.9 tells a generation that never was from a group that never was; later releases and Ottla do not."
NO_MESSAGE = "0.11 leaves the error message out; later releases and Ottla write NONE."
SENTENCES = "The sentences are each broker's own."
NO_LIST = "An error comes with no list of aborted transactions, not an empty one, as of Kafka 3."
ALL_TOPICS = "0.9 answers with all topics where none are asked about."
FIRST_CHECK = "The records are as wrong as the acks: Kafka since 2.4 looks at the records first, Ottla at the acks."

DIFFERENCES = (
    Difference("2.8", "DescribeAcls v[0-9]+: nothing", WRONG_CODE),
    Difference("0.8.2", "(JoinGroup|Heartbeat) v[0-9]+: nothing", DRAFT),
    Difference("0.8.2", "FindCoordinator v1: nothing", COORDINATOR_AT_ONCE),
    Difference("0.8.2", "Metadata v0: (a name that none may have|an empty name)", NO_BROKERS),
    Difference(OF_0_8_AND_0_9, "Produce v[0-9]+: (an unknown magic|a wrapper in a wrapper|an empty wrapper)", CHECKED),
    Difference(OF_0_8_AND_0_9, "Fetch v[0-9]+: fetched-1.*", STORED_AS_SENT),
    Difference("0.10.2", "Produce v[0-9]+: an unknown magic", CHECKED),
    Difference("0.10.2", "Produce v[0-9]+: an empty wrapper", WRONG_CODE),
    Difference("0.10.2", "Fetch v[01]: fetched-..*", WHOLE_READS),
    Difference(WITH_BATCHES, "Fetch v[0-9]+: fetched-..*", FILLED_UP),
    Difference(WITH_BATCHES, "Fetch v([4-9]|1.): a (topic|partition) that is not there", NO_LIST),
    Difference("0.9.0", "OffsetFetch v1: no topics", ALL_TOPICS),
    Difference("0.9.0 0.10.2 0.11.0", "JoinGroup v[0-9]+: (no type|no protocols)", JOINED_BADLY),
    Difference("0.9.0 0.10.2 0.11.0", "Heartbeat v[0-9]+: of a group without a name", NAMELESS),
    Difference("0.9.0", "DescribeGroups v0: .*", STATE_OF_0_9),
    Difference("0.9.0", "OffsetCommit v[0-9]+: a generation that never was", ONE_CODE),
    Difference(OF_0_10_AND_0_11, "DeleteTopics v[0-9]+: .*", DELETION_OFF),
    Difference(OF_0_10_AND_0_11, "SaslHandshake v[0-9]+: .*", MECHANISMS),
    Difference("0.11.0", "FindCoordinator v1: .*", NO_MESSAGE),
    Difference("2.8", "Produce v[3-8]: acks of -?2", FIRST_CHECK),
    Difference("2.8", "Produce v[0-9]+: an unknown codec", WRONG_CODE),
    Difference("2.8", "Produce v8: an unknown magic", SENTENCES),
)
