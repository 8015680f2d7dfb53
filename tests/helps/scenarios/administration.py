"""The examples of `ottla doctor`, `cluster`, `logdirs`, `token` and `metrics`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import confluent_kafka

from tests.helps.scenario import example
from tests.helps.world import HelpWorld

TOKEN = "5N1wHwNoRjmKRsTyE0y5nA"
INSTANCE = "qYx3TzQvQ1uVbW2p0rJ8Lg"
HOUR_MS = 3_600_000


@example("doctor")
def all_checks_pass(world: HelpWorld) -> None:
    world.run(f"profile create dev -b {world.cluster.address} --use")
    lines = world.run().out.splitlines()
    assert {line.split()[0] for line in lines} <= {"ok", "warn"}
    assert {"address", "connection", "versions", "brokers", "partitions"} <= {line.split()[1] for line in lines}


@example(
    "doctor -b kafka.example.com:9093 --command-config tls.properties",
    only_current="older releases need a Java keystore for TLS",
)
def the_way_to_a_secured_listener_is_checked(world: HelpWorld) -> None:
    settings = dict(world.cluster.secured)
    world.words["kafka.example.com:9093"] = settings.pop("bootstrap_servers")
    Path("tls.properties").write_text("".join(f"{name.replace('_', '.')}={value}\n" for name, value in settings.items()))
    lines = [line.split(maxsplit=2) for line in world.run().out.splitlines()]
    found = {line[1]: line[0] for line in reversed(lines)}
    assert (found["TLS"], found["login"]) == ("ok", "ok")


@example("doctor --json")
def each_check_is_an_object(world: HelpWorld) -> None:
    rows = world.run().rows
    assert {row["status"] for row in rows if row["check"] not in ("disks", "limits", "extras")} == {"ok"}
    assert {"address", "connection", "versions"} <= {row["check"] for row in rows}


@example("doctor disk data", only_current="it asks no broker")
@example("doctor disk data --seconds 3", only_current="it asks no broker", seconds=3)
def the_table_of_a_disk_ends_with_a_sentence(world: HelpWorld) -> None:
    Path("data").mkdir()
    lines = world.run().out.splitlines()
    assert lines[1].startswith("append, fdatasync ")
    assert lines[-1].split()[1] == "disk"
    assert not list(Path("data").iterdir())


@example("doctor disk data --seconds 0.5 --json", only_current="it asks no broker")
def each_way_of_a_disk_is_an_object(world: HelpWorld) -> None:
    Path("data").mkdir()
    *ways, end = world.run().rows
    assert {"append, fdatasync", "50 files, one by one"} <= {str(row["way"]) for row in ways}
    assert end["check"] == "disk"


@example("cluster quorum")
def the_quorum_is_printed(world: HelpWorld) -> None:
    table, end = world.run().out.split("\n\n")
    assert table.splitlines()[1].split()[1] == "leader"
    assert end.startswith("Epoch ")


@example("cluster quorum --utc")
def times_are_in_utc(world: HelpWorld) -> None:
    if not world.cluster.is_ottla:
        assert "Z " in world.run().out
        assert "Z " not in world.run("cluster quorum").out
    else:
        assert "leader" in world.run().out


@example("cluster quorum --json")
def replicas_of_the_quorum_are_objects(world: HelpWorld) -> None:
    leader = world.run().rows[0]
    assert (leader["node"], leader["role"], leader["lag"]) == (1, "leader", 0)


@example("cluster unregister 3")
def a_broker_is_removed_once_its_id_is_typed(world: HelpWorld) -> None:
    world.run(code=1, typed="4")
    unregister(world, typed="3")


@example("cluster unregister 3 --yes")
def a_broker_is_removed(world: HelpWorld) -> None:
    unregister(world)


@example("cluster unregister 3 --yes --json")
def a_broker_is_removed_by_programs(world: HelpWorld) -> None:
    unregister(world)


def unregister(world: HelpWorld, typed: str | None = None) -> None:
    """Run the example, and then again: broker 3 is registered no more. Ottla by itself never has a second broker."""
    if not world.cluster.is_ottla:
        world.register_broker(3)
        outcome = world.run(typed=typed)
        assert outcome.out in ("Broker 3 is unregistered.\n", '{"broker": 3, "result": "unregistered"}\n')
    outcome = world.run(code=1, typed=typed)
    assert outcome.out == ""
    assert "BROKER_ID_NOT_REGISTERED" in outcome.err


@example("logdirs")
def directories_are_printed(world: HelpWorld) -> None:
    world.topic("flights", b"x" * 1000)
    header, *rows = (line.split() for line in world.run().out.splitlines())
    assert header[0] == "BROKER"
    assert [(row[0], "online" in row) for row in rows] == [("1", True)] * 2


@example("logdirs --broker 1 --topic flights")
def the_size_of_a_topic_is_printed(world: HelpWorld) -> None:
    world.topic("flights", b"x" * 1000)
    world.topic("planes", b"x" * 100_000)
    out = world.run().out
    assert "1.1 KB" in out or "1.0 KB" in out


@example("logdirs --replicas --json")
def replicas_are_objects(world: HelpWorld) -> None:
    world.topic("flights", b"x" * 1000, partitions=2)
    rows = [row for row in world.run().rows if row["topic"] == "flights"]
    assert sorted((row["partition"], row["size"] > 1000, row["lag"]) for row in rows) == [(0, True, 0), (1, False, 0)]


def place(world: HelpWorld) -> str:
    """Return the log directory in which the topic is."""
    (row,) = world.run("logdirs --replicas --topic flights --json").rows
    return str(row["directory"])


def other_directory(world: HelpWorld) -> str:
    """Create the topic, and let the directory of the help be the one in which it is not."""
    world.topic("flights", b"x" * 1000)
    known = {str(row["directory"]) for row in world.run("logdirs --json").rows}
    (world.words["/data2"],) = known - {place(world)}
    return world.words["/data2"]


@example("cluster move-replicas flights /data2 --dry-run")
def a_plan_of_moves_between_directories_is_printed(world: HelpWorld) -> None:
    directory = other_directory(world)
    header, row = world.run().out.splitlines()
    assert header.split()[0] == "BROKER"
    assert row.split()[:3] == ["1", "flights", "0"]
    assert row.endswith("would move")
    assert place(world) != directory


@example("cluster move-replicas flights:0 /data2 --broker 1")
def a_replica_is_moved(world: HelpWorld) -> None:
    directory = other_directory(world)
    assert world.run().out.rstrip().endswith("moved")
    assert place(world) == directory
    assert world.values() == [b"x" * 1000]
    assert "is there" in world.run().out


@example("cluster move-replicas flights /data2 --no-wait")
def the_move_of_a_replica_is_begun(world: HelpWorld) -> None:
    directory = other_directory(world)
    assert world.run().out.rstrip().endswith("moves")
    world.wait_until(lambda: directory in world.run("logdirs --replicas --topic flights").out.splitlines()[-1].split())


def token(world: HelpWorld) -> str:
    """Create a delegation token of alice, which stands for the one in helps; return its id."""
    world.log_in()
    (made,) = world.run("token create --json").rows
    world.words[TOKEN] = str(made["id"])
    return str(made["id"])


def expiry(world: HelpWorld, token_id: str) -> int | None:
    """Return in how many ms a token expires, or None if there is no such token."""
    found = {row["id"]: row["expires"] for row in world.run("token list --json").rows}
    return found[token_id] - int(time.time() * 1000) if token_id in found else None


@example("token create")
def a_token_is_created(world: HelpWorld) -> None:
    world.log_in()
    outcome = world.run()
    assert "User:alice" in outcome.out
    assert "is not printed again" in outcome.err


@example("token create --renewer User:scheduler --max-lifetime 7d")
def another_user_may_renew_a_token(world: HelpWorld) -> None:
    world.log_in()
    out = world.run().out
    assert "User:scheduler" in out
    (row,) = (row for row in world.run("token list --json").rows if row["renewers"] == ["User:scheduler"])
    assert row["ends_at_the_latest"] - row["issued"] == 7 * 24 * HOUR_MS
    world.run(f"token renew {row['id']} -X sasl.username=scheduler -X sasl.password=other")
    world.run(f"token expire {row['id']} --yes")


@example("token create --owner User:alice --json")
def a_token_of_another_user_is_created(world: HelpWorld) -> None:
    world.log_in()
    world.run("profile use --none")
    scheduler = {**world.cluster.secured, "sasl_username": "scheduler", "sasl_password": "other"}
    world.profile("scheduler", scheduler)
    world.run("profile use scheduler")
    (row,) = world.run().rows
    assert (row["owner"], row["requester"]) == ("User:alice", "User:scheduler")


@example("token list")
def tokens_are_listed(world: HelpWorld) -> None:
    made = token(world)
    assert made in world.run().out


@example("token list --owner User:alice")
def tokens_of_a_user_are_listed(world: HelpWorld) -> None:
    made = token(world)
    assert made in world.run().out
    assert made not in world.run("token list --owner User:scheduler").out


@example("token list --json --utc")
def tokens_are_objects(world: HelpWorld) -> None:
    made = token(world)
    assert made in [row["id"] for row in world.run().rows]


@example(f"token renew {TOKEN}")
def a_token_is_renewed(world: HelpWorld) -> None:
    made = token(world)
    assert "expires at" in world.run().out
    world.wait_until(lambda: abs((expiry(world, made) or 0) - 24 * HOUR_MS) < HOUR_MS)


@example(f"token renew {TOKEN} --by 12h")
def a_token_is_renewed_for_twelve_hours(world: HelpWorld) -> None:
    made = token(world)
    world.run()
    world.wait_until(lambda: abs((expiry(world, made) or 0) - 12 * HOUR_MS) < HOUR_MS)


@example(f"token renew {TOKEN} --json")
def the_new_expiry_is_printed_in_ms(world: HelpWorld) -> None:
    token(world)
    (row,) = world.run().rows
    assert abs(row["expires"] - time.time() * 1000 - 24 * HOUR_MS) < HOUR_MS


@example(f"token expire {TOKEN}")
def a_token_is_ended_once_its_id_is_typed(world: HelpWorld) -> None:
    made = token(world)
    world.run(code=1, typed="no")
    world.run(typed=made)
    world.wait_until(lambda: expiry(world, made) is None)


@example(f"token expire {TOKEN} --in 10m --yes")
def a_token_is_ended_in_ten_minutes(world: HelpWorld) -> None:
    made = token(world)
    world.run()
    world.wait_until(lambda: abs((expiry(world, made) or 0) - HOUR_MS // 6) < HOUR_MS // 12)


@example(f"token expire {TOKEN} --yes --json")
def a_token_is_ended_by_programs(world: HelpWorld) -> None:
    made = token(world)
    (row,) = world.run().rows
    assert row["id"] == made
    world.wait_until(lambda: expiry(world, made) is None)


METRICS_STAY = "brokers of Apache Kafka hand the metrics to a plug-in and keep none"


@contextmanager
def pushing_client(world: HelpWorld) -> Iterator[str]:
    """Let a client with the id `app` push metrics; yield its instance."""
    world.run("config set client-metrics/all metrics=* interval.ms=100")
    producer = confluent_kafka.Producer({"bootstrap.servers": world.cluster.address, "client.id": "app"})

    def instance() -> str:
        producer.poll(0.05)
        rows = [row for row in world.run("metrics clients --json").rows if row["client-id"] == "app" and row["size"]]
        return str(rows[0]["instance"]) if rows else ""

    try:
        world.words[INSTANCE] = world.wait_until(instance)
        yield world.words[INSTANCE]
    finally:
        world.run("config unset client-metrics/all --all --yes")
        producer.purge()


@example("metrics clients", only_ottla=METRICS_STAY, seconds=2)
def pushing_clients_are_listed(world: HelpWorld) -> None:
    with pushing_client(world) as instance:
        (line,) = (line for line in world.run().out.splitlines() if instance in line)
    assert " app " in line
    assert "last seen" in line


@example("metrics clients --client-id app", only_ottla=METRICS_STAY)
def metrics_of_a_client_id_are_printed(world: HelpWorld) -> None:
    with pushing_client(world) as instance:
        lines = world.run().out.splitlines()
    assert instance in lines[1]


@example(f"metrics clients {INSTANCE} --json", only_ottla=METRICS_STAY)
def metrics_of_an_instance_are_objects(world: HelpWorld) -> None:
    with pushing_client(world) as instance:
        rows = world.run().rows
    assert {row["instance"] for row in rows} == {instance}
    assert all({"metric", "value"} <= row.keys() for row in rows)
