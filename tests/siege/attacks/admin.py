"""What administrators ask for, by the thousand: topics, settings, records to delete, producer ids."""

from __future__ import annotations

import os

from ottla.wire.api.alter_configs import AlterConfigsRequest
from ottla.wire.api.create_partitions import CreatePartitionsRequest
from ottla.wire.api.create_topics import CreateTopicsRequest
from ottla.wire.api.delete_records import DeleteRecordsRequest
from ottla.wire.api.delete_topics import DeleteTopicsRequest
from ottla.wire.api.describe_cluster import DescribeClusterRequest
from ottla.wire.api.describe_configs import DescribeConfigsRequest
from ottla.wire.api.describe_log_dirs import DescribeLogDirsRequest
from ottla.wire.api.describe_producers import DescribeProducersRequest
from ottla.wire.api.incremental_alter_configs import IncrementalAlterConfigsRequest
from ottla.wire.api.init_producer_id import InitProducerIdRequest
from tests.siege.attack import attack
from tests.siege.making import Creatable, create_many_topics
from tests.siege.site import Site, framed, press

TOPIC_RESOURCE = 2
TOPICS = 1000
Asked = DescribeConfigsRequest.DescribeConfigsResource
Resource = IncrementalAlterConfigsRequest.AlterConfigsResource


def create(names: list[str], *, partitions: int = 1, validate_only: bool = False) -> bytes:
    topics = [Creatable(name=name, num_partitions=partitions, replication_factor=1) for name in names]
    return framed(CreateTopicsRequest(topics=topics, timeout_ms=30_000, validate_only=validate_only), 5)


@attack("one CreateTopics of 3 000 topics, then the same again and again", spoils=True)
def topics_by_the_thousand(site: Site) -> None:
    press(site, create([site.named(number) for number in range(3000)]))


@attack("CreateTopics of 50 000 topics that shall only be validated, again and again")
def topics_to_be_validated(site: Site) -> None:
    press(site, create([site.named(number) for number in range(50_000)], validate_only=True))


@attack("CreateTopics of 50 000 invalid names, again and again", minor=True)
def topics_with_invalid_names(site: Site) -> None:
    press(site, create([f"{site.name}/{number}" for number in range(50_000)]))


@attack("CreateTopics of one topic of 100 000 partitions that shall only be validated, again and again", minor=True)
def partitions_to_be_validated(site: Site) -> None:
    press(site, create([site.named("wide")], partitions=100_000, validate_only=True))


@attack("topics of 20 partitions are created and deleted again and again", spoils=True, minor=True)
def topics_that_come_and_go(site: Site) -> None:
    stem = os.urandom(4).hex()

    def frame(number: int) -> bytes:
        name = site.named(f"{stem}-{number // 2}")
        if number % 2 == 0:
            return create([name], partitions=20)
        return framed(DeleteTopicsRequest(topic_names=[name], timeout_ms=30_000), 5)

    press(site, frame, most=2000)


@attack("DeleteTopics of 50 000 unknown topics, again and again", minor=True)
def delete_unknown_topics(site: Site) -> None:
    names = [site.named(number) for number in range(50_000)]
    press(site, framed(DeleteTopicsRequest(topic_names=names, timeout_ms=30_000), 5))


@attack("CreatePartitions of 50 000 unknown topics, again and again", minor=True)
def partitions_of_unknown_topics(site: Site) -> None:
    topics = [
        CreatePartitionsRequest.CreatePartitionsTopic(name=site.named(number), count=2, assignments=None)
        for number in range(50_000)
    ]
    press(site, framed(CreatePartitionsRequest(topics=topics, timeout_ms=30_000), 3))


@attack("DescribeConfigs of 1 000 topics with all settings, from 4 connections", spoils=True)
def settings_of_many_topics(site: Site) -> None:
    names = create_many_topics(site, TOPICS)
    asked = [Asked(resource_type=TOPIC_RESOURCE, resource_name=name, configuration_keys=None) for name in names]
    press(site, framed(DescribeConfigsRequest(resources=asked, include_synonyms=True, include_documentation=True), 4), lines=4)


@attack("DescribeConfigs of 50 000 unknown topics, from 4 connections", minor=True)
def settings_of_unknown_topics(site: Site) -> None:
    asked = [
        Asked(resource_type=TOPIC_RESOURCE, resource_name=site.named(number), configuration_keys=None) for number in range(50_000)
    ]
    press(site, framed(DescribeConfigsRequest(resources=asked), 4), lines=4)


@attack("IncrementalAlterConfigs of 20 000 unknown topics, from 2 connections", minor=True)
def changed_settings_of_unknown_topics(site: Site) -> None:
    change = IncrementalAlterConfigsRequest.AlterableConfig(name="retention.ms", config_operation=0, value="1000000")
    resources = [
        Resource(resource_type=TOPIC_RESOURCE, resource_name=site.named(number), configs=[change]) for number in range(20_000)
    ]
    press(site, framed(IncrementalAlterConfigsRequest(resources=resources), 1), lines=2)


@attack("8 connections change a setting of one topic again and again", minor=True)
def changed_settings(site: Site) -> None:
    def frame(number: int) -> bytes:
        change = AlterConfigsRequest.AlterableConfig(name="retention.ms", value=str(10_000_000 + number))
        changed = AlterConfigsRequest.AlterConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=site.topic, configs=[change])
        return framed(AlterConfigsRequest(resources=[changed]), 2)

    press(site, frame, lines=8)


@attack("DescribeLogDirs of everything from 8 connections; 1 000 topics exist", spoils=True, minor=True)
def log_directories(site: Site) -> None:
    create_many_topics(site, TOPICS)
    press(site, framed(DescribeLogDirsRequest(topics=None), 4), lines=8)


@attack("DescribeProducers of 100 000 partitions that there are not, from 2 connections", minor=True)
def producers_of_unknown_partitions(site: Site) -> None:
    wanted = [DescribeProducersRequest.TopicRequest(name=site.topic, partition_indexes=list(range(4, 100_004)))]
    press(site, framed(DescribeProducersRequest(topics=wanted), 0), lines=2)


@attack("DeleteRecords of 100 000 partitions that there are not, from 2 connections", minor=True)
def delete_records_of_unknown_partitions(site: Site) -> None:
    wanted = [DeleteRecordsRequest.DeleteRecordsPartition(partition_index=number, offset=0) for number in range(4, 100_004)]
    topics = [DeleteRecordsRequest.DeleteRecordsTopic(name=site.topic, partitions=wanted)]
    press(site, framed(DeleteRecordsRequest(topics=topics, timeout_ms=5000), 2), lines=2)


@attack("8 connections ask for producer ids without end, pipelined")
def producer_ids(site: Site) -> None:
    press(site, framed(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000), 4), lines=8, in_flight=200)


@attack("8 connections pipeline DescribeCluster without end", minor=True)
def describe_the_cluster(site: Site) -> None:
    press(site, framed(DescribeClusterRequest(), 1), lines=8, in_flight=500)
