"""Instances of a registry: restarts, several at once, foreign records, and what they refuse."""

from __future__ import annotations

import base64
import json
import logging
import re
import signal
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme

import ottla
from ottla.client.admin.acls import AclRule
from ottla.errors import SettingError
from ottla.schema_registry.server.registry import RegistryOptions
from ottla.web.server import TlsFiles
from tests.integration.schema_registry.instances import JSON, Instance, fresh_options, instance
from tests.support.http_answers import request

RECORD = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}


def test_a_restart_reads_all_again() -> None:
    options = fresh_options()
    with ottla.Broker() as broker:
        with instance(broker.address, options) as registry:
            registry.register("a", '"int"')
            registry.register("a", '"long"')
            registry.register(":.c:b", '"string"')
            registry.ask("PUT", "/config/b", {"compatibility": "FULL"})
            registry.ask("PUT", "/mode/b", {"mode": "READONLY"})
            registry.ask("DELETE", "/subjects/a/versions/1")
            before = [registry.ask("GET", path)[:2] for path in ("/schemas?deleted=true", "/config/b", "/mode/b", "/contexts")]
        with instance(broker.address, options) as registry:
            after = [registry.ask("GET", path)[:2] for path in ("/schemas?deleted=true", "/config/b", "/mode/b", "/contexts")]
            assert after == before
            assert registry.register("a", '"double"')["id"] == 3


def test_a_user_needs_rights_to_use_the_topic_and_no_others() -> None:
    options = fresh_options()
    authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    alice = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", "sasl_username": "alice", "sasl_password": "a"}
    with (
        ottla.Broker(users={"root": "r", "alice": "a"}, authorizer_class_name=authorizer, super_users="User:root") as broker,
        ottla.Admin(
            broker.address, security_protocol="SASL_PLAINTEXT", sasl_mechanism="PLAIN", sasl_username="root", sasl_password="r"
        ) as admin,
    ):
        with pytest.raises(ottla.BrokerError, match="TOPIC_AUTHORIZATION_FAILED"), instance(broker.address, options, login=alice):
            pass
        admin.create_topic(options.topic, 1, configs={"cleanup.policy": "compact"})
        rights = [(each, "topic", options.topic) for each in ("read", "write", "describe")]
        admin.create_acls([AclRule("User:alice", *each) for each in (*rights, ("read", "group", options.group))])
        with instance(broker.address, options, login=alice) as registry:
            assert registry.register("a", '"int"')["id"] == 1


def test_two_instances_have_one_leader_and_one_state() -> None:
    options = fresh_options()
    with ottla.Broker() as broker, ExitStack() as first_life, instance(broker.address, options) as second:
        first = first_life.enter_context(instance(broker.address, options))
        ids = [each.register(f"s{number}", f'{{"type":"fixed","name":"F","size":{number}}}')["id"] for number, each in
               enumerate((first, second, first, second), 1)]  # fmt: skip
        assert ids == [1, 2, 3, 4]
        for each in first, second:
            assert each.ask("GET", "/subjects")[1] == ["s1", "s2", "s3", "s4"]  # the other one's writes were read, too
        assert second.ask("DELETE", "/subjects/s1")[:2] == (200, [1])
        assert first.ask("POST", "/subjects/s2/versions", {"schema": "{"})[1]["error_code"] == 42201
        first_life.close()
        assert second.register("s5", '"int"')["id"] == 5


@pytest.mark.full(seconds=5)
def test_another_instance_leads_when_the_leader_ends() -> None:
    options = fresh_options()
    with ottla.Broker() as broker, ExitStack() as life, instance(broker.address, options) as stays:
        ends = life.enter_context(instance(broker.address, options))
        ends.register("a", '"int"')
        stays.register("b", '"int"')
        life.close()
        assert stays.register("c", '"string"')["id"] == 2
        with instance(broker.address, options) as third:
            assert third.register("d", '"bytes"')["id"] == 3


def test_one_schema_that_many_register_at_once_gets_one_id() -> None:
    options = fresh_options()
    texts = [json.dumps({**RECORD, "name": f"R{number % 3}"}) for number in range(24)]
    with ottla.Broker() as broker, instance(broker.address, options) as one, instance(broker.address, options) as two:
        with ThreadPoolExecutor(8) as threads:
            found = list(threads.map(lambda each: (one, two)[each % 2].register(f"s{each % 4}-{each % 3}", texts[each]), range(24)))
        assert {(answer["guid"], answer["id"]) for answer in found} == {(each["guid"], each["id"]) for each in found[:3]}
        assert sorted({answer["id"] for answer in found}) == [1, 2, 3]
        assert {answer["version"] for answer in found} == {1}


def test_foreign_records_are_skipped_with_a_line_each(caplog: pytest.LogCaptureFixture) -> None:
    options = fresh_options()
    value = {"subject": "theirs", "version": 1, "id": 7, "schema": '"int"', "deleted": False}
    rows: list[tuple[bytes | None, bytes | None]] = [
        (None, b"x"),
        (b"key", b"value"),
        (b'{"keytype":"SCHEMA","subject":"a","version":1,"magic":1}', b"{"),
        (b'{"keytype":"SCHEMA","subject":"theirs","version":1,"magic":1}', json.dumps(value).encode()),
        (b'{"keytype":"ELSE","magic":0}', b"{}"),
    ]
    with ottla.Broker() as broker, caplog.at_level(logging.WARNING, "ottla.schema_registry"):
        with ottla.Admin(broker.address) as admin, ottla.Producer(broker.address) as producer:
            admin.create_topic(options.topic, 1)  # not compacted: a producer without keys could not write otherwise
            for key, each in rows:
                producer.send(options.topic, each, key=key)
        with instance(broker.address, options) as registry:
            assert registry.ask("GET", "/subjects")[1] == ["theirs"]
            assert registry.register("ours", '"string"')["id"] == 8
    lines = [each.getMessage() for each in caplog.records if "skipped" in each.getMessage()]
    assert len(lines) == 4
    assert "cleanup.policy=delete" in caplog.text


def test_a_schema_of_a_megabyte_is_kept() -> None:
    fields = [{"name": f"field_{number}", "type": "string", "doc": "x" * 100} for number in range(8000)]
    text = json.dumps({"type": "record", "name": "Huge", "fields": fields})
    proto = 'syntax = "proto3";' + "".join(f"message M{number} {{ string a_name_that_is_long = 1; }}" for number in range(3000))
    with ottla.Broker() as broker, instance(broker.address) as registry:
        assert len(text) > 1_000_000
        assert registry.register("huge", text)["id"] == 1
        assert json.loads(registry.ask("GET", "/schemas/ids/1")[1]["schema"])["fields"][7999]["name"] == "field_7999"
        assert registry.register("proto", proto, schemaType="PROTOBUF")["id"] == 2


def test_reads_are_answered_while_a_large_schema_is_compared() -> None:
    fields = [{"name": f"field_{number}", "type": ["null", "string"], "default": None} for number in range(12_000)]
    text = json.dumps({"type": "record", "name": "Huge", "fields": fields})
    with ottla.Broker() as broker, instance(broker.address) as registry, ThreadPoolExecutor(1) as threads:
        registry.register("small", '"int"')
        registering = threads.submit(registry.register, "huge", text)
        answers = 0
        while not registering.done():
            assert registry.ask("GET", "/subjects/small/versions/1/schema")[1] == "int"
            answers += 1
        assert registering.result()["id"] == 2
        assert answers > 3


def test_a_topic_with_several_partitions_is_refused() -> None:
    options = fresh_options()
    with ottla.Broker() as broker:
        with ottla.Admin(broker.address) as admin:
            admin.create_topic(options.topic, 2)
        with pytest.raises(SettingError, match="has 2 partitions"), instance(broker.address, options):
            pass


def test_a_missing_library_is_named_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jsonschema", None)
    with pytest.raises(SettingError, match=r"JSON Schema needs jsonschema.*ottla\[formats\]"), instance("127.0.0.1:1"):
        pass


def test_media_types_are_negotiated() -> None:
    with ottla.Broker() as broker, instance(broker.address) as registry:

        def media_type(accept: str) -> Any:
            status, _, headers = registry.ask("GET", "/subjects", headers={"Accept": accept})
            return headers["content-type"] if status == 200 else status

        assert media_type("application/json") == "application/json"
        assert media_type("*/*") == "application/vnd.schemaregistry.v1+json"
        assert media_type("application/vnd.schemaregistry+json, */*;q=0.5") == "application/vnd.schemaregistry.v1+json"
        assert media_type("image/png") == 406
        plain = registry.ask("POST", "/subjects/a/versions", {"schema": '"int"'}, {"Content-Type": "text/plain"})
        assert plain[0] == 415


def test_users_log_in_with_basic_authentication_and_other_host_names_are_refused() -> None:
    options = fresh_options()
    with ottla.Broker() as broker, instance(broker.address, options, users={"ann": "né:w"}) as one:
        login = {"Authorization": f"Basic {base64.b64encode('ann:né:w'.encode()).decode()}"}
        assert one.ask("GET", "/subjects")[0] == 401
        assert one.ask("GET", "/subjects", headers={"Authorization": "Basic !"})[0] == 401
        assert one.ask("GET", "/subjects", headers={"Authorization": "Basic YW5uOngK"})[0] == 401
        assert one.ask("GET", "/subjects", headers=login)[0] == 200
        with instance(broker.address, options, users={"ann": "né:w"}) as two:
            for each in one, two:  # one of them forwards the request, with its login
                assert each.ask("POST", "/subjects/a/versions", {"schema": '"int"'}, login)[0] == 200
        assert one.ask("GET", "/subjects", headers={**login, "Host": "evil.example"})[0] == 421


def test_reads_go_on_while_the_broker_is_away() -> None:
    options = fresh_options()
    broker = ottla.Broker()
    with ExitStack() as life:
        broker.__enter__()
        registry = life.enter_context(instance(broker.address, options))
        registry.register("a", '"int"')
        broker.__exit__(None, None, None)
        assert registry.ask("GET", "/subjects/a/versions/1/schema")[1] == "int"
        stopper = threading.Thread(target=life.close)  # closing does not wait for a broker either
        stopper.start()
        stopper.join(15)
        assert not stopper.is_alive()


def test_a_topic_that_is_created_anew_begins_an_empty_registry() -> None:
    options = fresh_options()
    with ottla.Broker() as broker, instance(broker.address, options) as registry:
        registry.register("a", '"int"')
        with ottla.Admin(broker.address) as admin:
            admin.delete_topics(options.topic)
            admin.create_topic(options.topic, 1, configs={"cleanup.policy": "compact"})
        _until_empty(registry)
        assert registry.register("b", '"string"')["id"] == 1


def _until_empty(registry: Instance) -> None:
    for _ in range(200):
        if registry.ask("GET", "/subjects")[1] == []:
            return
        threading.Event().wait(0.05)
    raise AssertionError("the registry still has its former schemas")


@pytest.mark.full(seconds=3)
def test_instances_forward_changes_over_tls(tmp_path: Path) -> None:
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    chain = tmp_path / "chain.pem"
    certificate.private_key_and_cert_chain_pem.write_to_path(str(chain))
    authority.cert_pem.write_to_path(str(chain), append=True)
    context = ssl.create_default_context(cafile=str(chain))
    options = fresh_options()
    tls = TlsFiles(str(chain))
    with (
        ottla.Broker() as broker,
        instance(broker.address, options, tls=tls) as one,
        instance(broker.address, options, tls=tls) as two,
    ):
        for number, each in enumerate((one, two), 1):
            path, body = f"/subjects/s{number}/versions", b'{"schema": "\\"int\\""}'
            answer = request(each.url, path, method="POST", body=body, headers=JSON, trust=context)
            assert answer.json()["id"] == 1


@contextmanager
def process(address: str, options: RegistryOptions) -> Iterator[tuple[subprocess.Popen[str], Instance]]:
    """Return a context manager with an instance in a process of its own."""
    words = ["--listen", "127.0.0.1:0", "--topic", options.topic, "--group", options.group]
    command = [sys.executable, "-m", "ottla", "schema-registry", "-b", address, *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        try:
            assert running.stdout is not None
            found = re.search(r"answers at (\S+) ", running.stdout.readline())
            assert found is not None
            yield running, Instance(found[1])
        finally:
            running.kill()


@pytest.mark.full(seconds=30)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_another_instance_leads_when_the_leader_is_killed_or_paused(number: int) -> None:
    options = fresh_options()
    with ottla.Broker() as broker, process(broker.address, options) as (leader, first), ExitStack() as life:
        assert first.register("a", '"int"')["id"] == 1  # it leads by now
        second = life.enter_context(instance(broker.address, options))
        assert second.register("b", '"string"')["id"] == 2
        leader.send_signal(number)
        sent, found = time.monotonic(), None
        while found is None and time.monotonic() < sent + 60:
            status, answer, _ = second.ask("POST", "/subjects/c/versions", {"schema": '"bytes"'})
            found = answer if status == 200 else None
        assert found is not None
        assert found["id"] == 3
        if number == signal.SIGSTOP:
            leader.send_signal(signal.SIGCONT)
            assert first.register("d", '"long"')["id"] == 4  # it forwards the change, since it leads no more
            assert second.ask("GET", "/subjects/d/versions")[1] == [1]
