"""Groups of random shape for assignors, and what is to be said of an assignment: who has what, how level, how many moves."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from itertools import pairwise

from hypothesis import strategies as st

from ottla.coord.consumer.assign import Assignor, Partitions, Subscriber, TopicShape

Subscribers = dict[str, Subscriber]
Topics = dict[bytes, TopicShape]
Owner = tuple[bytes, int]

RACKS = ("a", "b", "c")


def topic_id(number: int) -> bytes:
    """Every 16 bytes are an id; neighbours in number are neighbours in order."""
    return number.to_bytes(16, "big")


@st.composite
def groups(
    draw: st.DrawFn, *, most_members: int = 7, most_partitions: int = 7, alike: bool | None = None
) -> tuple[Subscribers, Topics]:
    """A group that owns nothing yet; `alike`: whether its members subscribe to the same topics."""
    ids = [topic_id(number) for number in range(1, draw(st.integers(1, 4)) + 1)]
    topics = {each: TopicShape(draw(st.integers(0, most_partitions))) for each in ids}
    same = draw(st.booleans()) if alike is None else alike
    some = st.frozensets(st.sampled_from(ids))
    common = draw(some)
    subscribers = {}
    for number in range(draw(st.integers(1, most_members))):
        instance_id = f"i-{draw(st.integers(0, 99)):02}-{number}" if draw(st.booleans()) else None
        subscribers[f"m-{number:02}"] = Subscriber(common if same else draw(some), instance_id)
    return subscribers, topics


def settled(assignor: Assignor, subscribers: Subscribers, topics: Topics) -> Subscribers:
    """The same members, owning what they are assigned."""
    assigned = assignor.assign(subscribers, topics)
    return {member_id: each._replace(owned=assigned[member_id]) for member_id, each in subscribers.items()}


def changed(subscribers: Subscribers, topics: Topics, seed: int) -> tuple[Subscribers, Topics]:
    """The group after something happened: members gone and come, a topic gone, grown or new to some."""
    chance = random.Random(seed)
    after = {member_id: each for member_id, each in subscribers.items() if chance.random() < 0.8}
    for number in range(chance.randrange(3)):
        model = chance.choice(list(subscribers.values()))
        after[f"n-{number}-{chance.randrange(100):02}"] = model._replace(owned={}, instance_id=None)
    shapes = {each: TopicShape(shape.partitions + chance.choice((0, 0, 0, 1, 4))) for each, shape in topics.items()}
    if shapes and chance.random() < 0.3:
        del shapes[chance.choice(sorted(topics))]
    if chance.random() < 0.3:
        new = topic_id(chance.randrange(100, 200))
        shapes.setdefault(new, TopicShape(chance.randrange(1, 6)))
        after = {member_id: each._replace(topic_ids=each.topic_ids | {new}) for member_id, each in after.items()}
    return after, shapes


def owners(assigned: Mapping[str, Partitions]) -> dict[Owner, str]:
    """Who has each partition; an assertion fails if two do."""
    found: dict[Owner, str] = {}
    for member_id, partitions in assigned.items():
        for each, numbers in partitions.items():
            assert numbers, "a topic stands there without partitions"
            for number in numbers:
                assert (each, number) not in found
                found[each, number] = member_id
    return found


def sizes(assigned: Mapping[str, Partitions], members: Mapping[str, Subscriber]) -> list[int]:
    """How many partitions the members have, the largest first."""
    return sorted((sum(map(len, assigned.get(member_id, {}).values())) for member_id in members), reverse=True)


def moves(subscribers: Subscribers, assigned: Mapping[str, Partitions]) -> int:
    """Partitions that somebody owned and that somebody else has now."""
    before = owners({member_id: each.owned for member_id, each in subscribers.items()})
    return sum(before.get(partition, member_id) != member_id for partition, member_id in owners(assigned).items())


def wanted(subscribers: Subscribers, topics: Topics) -> set[Owner]:
    """Every partition that somebody subscribes to."""
    subscribed = {each for subscriber in subscribers.values() for each in subscriber.topic_ids}
    return {(each, number) for each in subscribed & topics.keys() for number in range(topics[each].partitions)}


def check_whole(subscribers: Subscribers, topics: Topics, assigned: Mapping[str, Partitions]) -> None:
    """Every partition that somebody subscribes to has one owner, who subscribes to it; every member is spoken of."""
    assert assigned.keys() == subscribers.keys()
    found = owners(assigned)
    assert found.keys() == wanted(subscribers, topics)
    assert all(each in subscribers[member_id].topic_ids for (each, _), member_id in found.items())


def most_level(subscribers: Subscribers, topics: Topics) -> list[int]:
    """How many partitions each member has in the most level assignment, the largest first: found slowly and surely.

    Partition after partition is placed at the end of the cheapest path, as in Harvey and others' semi-matchings.
    """
    holds: dict[str, Counter[bytes]] = {member_id: Counter() for member_id in subscribers}
    for each, _ in sorted(wanted(subscribers, topics)):
        came: dict[str, tuple[str | None, bytes]] = {m: (None, each) for m, s in subscribers.items() if each in s.topic_ids}
        queue = list(came)
        for member_id in queue:
            for other in [held for held, count in holds[member_id].items() if count]:
                for taker in [m for m, s in subscribers.items() if other in s.topic_ids and m not in came]:
                    came[taker] = (member_id, other)
                    queue.append(taker)
        path = [min(queue, key=lambda member_id: holds[member_id].total())]
        while (giver := came[path[-1]][0]) is not None:
            path.append(giver)
        holds[path[-1]][each] += 1
        for taker, giver in pairwise(path):
            passed = came[taker][1]
            holds[giver][passed] -= 1
            holds[taker][passed] += 1
    return sorted((held.total() for held in holds.values()), reverse=True)
