"""Questions about topics: all of them again and again, very many at once, and such as create what they ask for."""

from __future__ import annotations

import os
import random

from ottla.wire.api.describe_topic_partitions import DescribeTopicPartitionsRequest
from ottla.wire.api.metadata import MetadataRequest
from tests.siege.attack import attack
from tests.siege.making import Named, create_many_topics, metadata
from tests.siege.site import Site, framed, press

TOPICS = 3000
ALL = metadata(None, version=1)


@attack("one connection pipelines 13 000 times Metadata(all) and never reads; 3 000 topics exist", spoils=True)
def metadata_of_all_unread(site: Site) -> None:
    create_many_topics(site, TOPICS)
    press(site, ALL, in_flight=13_000, reads=False)


@attack("8 connections ask for Metadata(all) again and again; 3 000 topics exist", spoils=True)
def metadata_of_all_read(site: Site) -> None:
    create_many_topics(site, TOPICS)
    press(site, ALL, lines=8, in_flight=4)


@attack("5 connections pipeline 13 000 times Metadata(all) each and read; few topics exist")
def metadata_of_few_pipelined(site: Site) -> None:
    press(site, ALL, lines=5, in_flight=13_000)


@attack("Metadata of 100 000 unknown names, again and again")
def metadata_of_unknown_names(site: Site) -> None:
    press(site, metadata(site.named(number) for number in range(100_000)))


@attack("Metadata that names one topic 200 000 times, again and again", minor=True)
def metadata_of_one_name_often(site: Site) -> None:
    press(site, metadata([site.topic] * 200_000))


@attack("Metadata of 50 000 unknown topic ids, again and again", minor=True)
def metadata_of_unknown_ids(site: Site) -> None:
    topics = [Named(topic_id=random.randbytes(16), name=None) for _ in range(50_000)]
    press(site, framed(MetadataRequest(topics=topics, allow_auto_topic_creation=False), 12))


@attack("one Metadata that creates 3 000 topics, then the same again and again", spoils=True)
def metadata_that_creates_topics(site: Site) -> None:
    stem = os.urandom(4).hex()
    press(site, metadata((site.named(f"{stem}-{number}") for number in range(TOPICS)), creates=True))


@attack("DescribeTopicPartitions of 20 000 unknown names from 4 connections", minor=True)
def describe_unknown_topic_partitions(site: Site) -> None:
    wanted = [DescribeTopicPartitionsRequest.TopicRequest(name=site.named(number)) for number in range(20_000)]
    press(site, framed(DescribeTopicPartitionsRequest(topics=wanted), 0), lines=4)


@attack("DescribeTopicPartitions of 3 000 topics from 4 connections", spoils=True, minor=True)
def describe_topic_partitions(site: Site) -> None:
    wanted = [DescribeTopicPartitionsRequest.TopicRequest(name=name) for name in create_many_topics(site, TOPICS)]
    press(site, framed(DescribeTopicPartitionsRequest(topics=wanted), 0), lines=4)
