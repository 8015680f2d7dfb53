"""Options of the source and the sink: Kafka connector names, in any case; what does not fit is told by name."""

from __future__ import annotations

import pickle
from collections.abc import Mapping

import pytest

from ottla.client.types import TopicPartition
from ottla.spark.errors import OptionError
from ottla.spark.options import DEFAULT_COLUMNS, ReadOptions, TopicSelection, check_either_way, read_options, write_options
from ottla.spark.read_plan import EARLIEST, LATEST, AtGroup, AtOffsets, AtTime, AtTimes, Everywhere

SERVERS = {"kafka.bootstrap.servers": "127.0.0.1:9092"}


def read(options: Mapping[str, str] | None = None, *, streaming: bool = False, **more: str) -> ReadOptions:
    return read_options({**SERVERS, "subscribe": "flights", **(options or {}), **more}, streaming=streaming)


def why(options: Mapping[str, str], *, streaming: bool = False) -> str:
    with pytest.raises(OptionError) as caught:
        read(options, streaming=streaming)
    return str(caught.value)


def test_a_batch_reads_from_earliest_to_latest_and_a_stream_from_latest() -> None:
    assert (read().start, read().end) == (Everywhere(EARLIEST), Everywhere(LATEST))
    assert read(streaming=True).start == Everywhere(LATEST)
    assert read().columns == DEFAULT_COLUMNS
    assert read().fail_on_data_loss


def test_names_are_taken_in_any_case_as_spark_hands_them_over() -> None:
    options = read_options({"SUBSCRIBE": "a, b", "Kafka.Bootstrap.Servers": "h:1", "MAXOFFSETSPERTRIGGER": "7"}, streaming=True)
    assert options.selection == TopicSelection(topics=("a", "b"))
    assert options.max_offsets_per_trigger == 7
    assert options.client.bootstrap_servers == "h:1"


def test_offsets_are_given_for_each_partition_as_json() -> None:
    start = read(startingOffsets='{"flights": {"0": 23, "1": -2}}').start
    assert start == AtOffsets({TopicPartition("flights", 0): 23, TopicPartition("flights", 1): EARLIEST})
    assert read(endingOffsets='{"flights": {"0": -1}}').end == AtOffsets({TopicPartition("flights", 0): LATEST})


def test_a_time_outweighs_times_of_partitions_which_outweigh_offsets() -> None:
    times = {"startingOffsets": "earliest", "startingOffsetsByTimestamp": '{"flights": {"0": 1500}}'}
    assert read(times).start == AtTimes({TopicPartition("flights", 0): 1500})
    assert read(times, startingTimestamp="1700").start == AtTime(1700)
    assert read(endingTimestamp="1700").end == AtTime(1700)


def test_partitions_are_assigned_as_json() -> None:
    options = read_options({**SERVERS, "assign": '{"b": [1], "a": [2, 0]}'}, streaming=False)
    assert options.selection.partitions == (TopicPartition("a", 0), TopicPartition("a", 2), TopicPartition("b", 1))


def test_include_headers_adds_the_column_and_columns_narrow_the_rows() -> None:
    assert read(includeHeaders="true").columns == (*DEFAULT_COLUMNS, "headers")
    assert read(columns="Offset, VALUE").columns == ("offset", "value")


def test_limits_and_delays_are_read() -> None:
    options = read(streaming=True, minOffsetsPerTrigger="5", maxOffsetsPerTrigger="9", maxTriggerDelay="30s", minPartitions="4")
    assert (options.min_offsets_per_trigger, options.max_offsets_per_trigger, options.max_trigger_delay_ms) == (5, 9, 30_000)
    assert options.min_partitions == 4
    assert read(streaming=True, maxTriggerDelay="2h").max_trigger_delay_ms == 7_200_000


def test_a_stream_begins_where_a_group_stands() -> None:
    options = read(streaming=True, startingOffsets="group", groupId="copy")
    assert (options.start, options.client.group_id) == (AtGroup(), "copy")
    assert read(startingOffsets="group", groupId="copy").start == AtGroup()
    assert read(streaming=True).client.group_id is None
    assert "name the group with option groupId" in why({"startingOffsets": "group"}, streaming=True)
    assert "A batch commits no offsets" in why({"groupId": "copy"})
    assert "endingOffsets" in why({"endingOffsets": "group"})


def test_sizes_are_read_and_a_batch_has_no_triggers_to_limit() -> None:
    options = read(streaming=True, maxBytesPerTrigger="64m", maxOffsetsPerTriggerPerPartition="500")
    assert (options.max_bytes_per_trigger, options.max_offsets_per_trigger_per_partition) == (64 << 20, 500)
    assert "such as 64m" in why({"maxBytesPerTrigger": "much"}, streaming=True)
    for name in ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxOffsetsPerTriggerPerPartition"):
        assert f"Option {name} limits the triggers of a stream" in why({name: "5"})

    assert "must not be above" in why({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "5"}, streaming=True)


def test_asynchronous_progress_tracking_is_refused() -> None:
    assert "must be false" in why({"asyncProgressTrackingEnabled": "true"}, streaming=True)
    assert read(streaming=True, asyncProgressTrackingEnabled="false")


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"subcribe": "x"}, "did you mean subscribe?"),
        ({"startOffsets": "earliest"}, "did you mean startingOffsets?"),
        ({"bootstrap.servers": "x"}, "did you mean kafka.bootstrap.servers?"),
        ({"group.id": "x"}, "did you mean kafka.group.id?"),
        ({"topics": "x"}, "did you mean subscribe?"),
        ({"kafka.bootstrap.server": "x"}, "did you mean kafka.bootstrap.servers?"),
        ({"kafka.auto.offset.reset": "earliest"}, "use option startingOffsets"),
        ({"kafka.key.deserializer": "x"}, "cast"),
        ({"kafka.enable.auto.commit": "true"}, "checkpoint"),
        ({"kafka.security.protocol": "TLS"}, "kafka.security.protocol must be one of PLAINTEXT, SSL"),
        ({"kafka.ssl.keystore.location": "x"}, "kafka.ssl.keystore.location has no effect with kafka.security.protocol=PLAINTEXT"),
        ({"kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "PLAIN"}, "kafka.sasl.username is missing"),
        ({"kafka.ssl.engine.factory.class": "x"}, "it names a class of Java"),
        ({"kafka.ssl.keystore.lokation": "x"}, "did you mean kafka.ssl.keystore.location?"),
        ({"topic": "x"}, "belongs to the sink"),
        ({"subscribePattern": "x"}, "subscribe and subscribePattern"),
        ({"maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger"),
        ({"failOnDataLoss": "no"}, "failOnDataLoss"),
        ({"startingOffsets": "first"}, "earliest"),
        ({"startingOffsets": '{"flights": {"0": "x"}}'}, "flights 0"),
        ({"startingOffsets": '{"flights": 3}'}, "startingOffsets"),
        ({"startingOffsets": "latest"}, "batch"),
        ({"startingOffsets": '{"flights": {"0": -1}}'}, "-2 (earliest)"),
        ({"endingOffsets": "earliest"}, "endingOffsets"),
        ({"endingOffsets": '{"flights": {"0": -2}}'}, "-1 (latest)"),
        ({"startingTimestamp": "today"}, "milliseconds"),
        ({"startingOffsetsByTimestampStrategy": "earliest"}, "error"),
        ({"maxTriggerDelay": "soon"}, "15m"),
        ({"columns": "key, body"}, "timestampType"),
        ({"kafka.isolation.level": "serializable"}, "read_committed"),
    ],
)
def test_what_does_not_fit_is_an_error_that_names_the_right_one(options: dict[str, str], named: str) -> None:
    assert named in why(options)


def test_a_stream_has_no_end() -> None:
    assert "spark.read" in why({"endingOffsets": "latest"}, streaming=True)


def test_servers_and_one_of_the_three_subscriptions_are_asked_for() -> None:
    with pytest.raises(OptionError, match=r"kafka\.bootstrap\.servers is missing"):
        read_options({"subscribe": "a"}, streaming=False)
    with pytest.raises(OptionError, match="none is given"):
        read_options(SERVERS, streaming=False)


def test_a_bad_pattern_and_bad_json_are_told() -> None:
    for option, text in (("subscribePattern", "("), ("assign", "[1]"), ("assign", '{"a": ["0"]}'), ("assign", '{"a": []}')):
        with pytest.raises(OptionError, match=option):
            read_options({**SERVERS, option: text}, streaming=False)


def test_client_settings_without_effect_are_accepted_and_named_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    read({"kafka.max.poll.records": "500", "kafka.session.timeout.ms": "1000"})
    assert "kafka.max.poll.records, kafka.session.timeout.ms" in caplog.text


def test_options_that_tune_the_jvm_connector_alone_are_accepted_and_named_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    read({"kafkaConsumer.pollTimeoutMs": "500", "fetchOffset.numRetries": "3", "minPartitions": "2"})
    assert "no effect on the source and are ignored: fetchOffset.numRetries, kafkaConsumer.pollTimeoutMs" in caplog.text
    assert "minPartitions" not in caplog.text


def test_a_check_before_it_is_known_what_will_be_read_logs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    given = {**SERVERS, "subscribe": "flights", "fetchOffset.numRetries": "3"}
    check_either_way({**given, "endingOffsets": "latest"})
    with pytest.raises(OptionError, match="startingOffsets"):
        check_either_way({**given, "startingOffsets": "nowhere"})
    assert not caplog.text


def test_client_settings_with_effect_reach_the_tasks() -> None:
    client = read({"kafka.isolation.level": "read_committed", "kafka.request.timeout.ms": "1234", "groupIdPrefix": "jobs"}).client
    assert (client.read_committed, client.request_timeout_ms, client.client_id) == (True, 1234, "jobs")
    sink = write_options(
        {**SERVERS, "kafka.acks": "1", "kafka.compression.type": "zstd", "kafka.enable.idempotence": "false"}
    ).client
    assert (sink.acks_code, sink.compression_type, sink.enable_idempotence) == (1, "zstd", False)


def test_the_sink_takes_its_topic_and_what_spark_adds() -> None:
    options = write_options({**SERVERS, "topic": "delays", "checkpointlocation": "/somewhere", "includeheaders": "false"})
    assert (options.topic, options.include_headers) == ("delays", False)
    for name, named in (
        ("subscribe", "belongs to the source"),
        ("kafka.value.serializer", "binary"),
        ("topics", "subscribe|topic"),
    ):
        with pytest.raises(OptionError, match=named):
            write_options({**SERVERS, name: "x"})


def test_two_phases_are_tried_asked_for_or_left_out() -> None:
    for given, wanted in (("auto", None), ("true", True), ("False", False)):
        assert write_options({**SERVERS, "twoPhaseCommit": given}).two_phase_commit is wanted
    with pytest.raises(OptionError, match="twoPhaseCommit must be auto, true or false, not 'yes'"):
        write_options({**SERVERS, "twoPhaseCommit": "yes"})
    with pytest.raises(OptionError, match="twoPhaseCommit is for deliveryGuarantee exactly-once"):
        write_options({**SERVERS, "twoPhaseCommit": "auto", "deliveryGuarantee": "at-least-once"})


def test_a_path_is_refused_with_what_to_do_in_its_place() -> None:
    with pytest.raises(OptionError, match=r"The sink has no option path: .* option topic, .* without a path"):
        write_options({**SERVERS, "topic": "delays", "path": "/somewhere"})
    assert "name them with option subscribe, and call load() without a path" in why({"path": "/somewhere"})


def test_options_travel_to_the_tasks() -> None:
    options = read(startingOffsets='{"flights": {"0": 23}}')
    assert pickle.loads(pickle.dumps(options)) == options
