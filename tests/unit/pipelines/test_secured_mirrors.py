"""A mirror between clusters that are secured each in its own way."""

from __future__ import annotations

from ottla.pipelines.mirror import MirrorPipeline

ALICE = {"kafka.security.protocol": "sasl_ssl", "kafka.sasl.mechanism": "PLAIN", "kafka.sasl.username": "alice"}


def test_each_cluster_gets_its_own_login_and_no_other_option() -> None:
    bob = {name: text.replace("alice", "bob") for name, text in ALICE.items()}
    more = {"kafka.client.id": "night", "maxBytesPerTrigger": "10m"}
    mirror = MirrorPipeline(["flights"], "a:1", "b:2", options=ALICE | more, target_options=bob)
    source, target = mirror.clients()
    assert source == {
        "bootstrap_servers": "a:1", "security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "sasl_username": "alice"
    }  # fmt: skip
    assert target == {**source, "bootstrap_servers": "b:2", "sasl_username": "bob"}
