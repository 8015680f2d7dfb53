"""The list of the commands of `ottla`, each with its module. The module of a command is imported only when the command runs."""

from __future__ import annotations

from importlib import import_module
from typing import NamedTuple

from ottla.cli.command.parser import Parser


class CommandEntry(NamedTuple):
    """A command. Its module, below `ottla.cli`, has a function `build(parser)`, which adds arguments and commands."""

    module: str
    summary: str


COMMANDS = {
    "serve": CommandEntry("serve", "run a broker"),
    "topic": CommandEntry("topic.topic", "list, create, describe, alter, trim, copy and delete topics"),
    "group": CommandEntry("group.group", "list, describe, seek, export and delete groups, and print their lag"),
    "config": CommandEntry("config.config", "print, compare and change the settings of topics, brokers, groups and loggers"),
    "produce": CommandEntry("produce.produce", "write records: lines, JSON, or by a template, all or nothing if wanted"),
    "consume": CommandEntry("consume.consume", "print the records of topics: as text, by templates or as JSON, filtered"),
    "cluster": CommandEntry("admin.cluster", "show the brokers of a cluster, and move replicas and leaders between them"),
    "bench": CommandEntry("bench.bench", "put load on a topic, and print rates and percentiles"),
    "doctor": CommandEntry("doctor.doctor", "check the way to a cluster and its health, with what to do"),
    "schema-registry": CommandEntry("schema_registry", "run a schema registry: Avro, JSON Schema and Protobuf over HTTP"),
    "schema": CommandEntry("schema", "list, print, register, check and delete the schemas of a registry"),
    "console": CommandEntry("console", "show a cluster in a browser: brokers, topics, groups, settings, users, live"),
    "profile": CommandEntry("profile", "name the settings of clusters, so that commands need no address"),
    "logdirs": CommandEntry("admin.log_dirs", "show the log directories of brokers, their sizes and replicas"),
    "token": CommandEntry("admin.token", "create, list, renew and expire delegation tokens"),
    "metrics": CommandEntry("admin.metrics", "print the metrics that clients push to brokers"),
    "acl": CommandEntry("admin.acl", "add, remove and list ACLs"),
    "user": CommandEntry("admin.user", "add, remove and list SCRAM users"),
    "quota": CommandEntry("admin.quota", "list, set and remove the quotas of clients"),
    "features": CommandEntry("admin.features", "describe, raise and lower the features of a cluster"),
    "transactions": CommandEntry("admin.transactions", "list, describe and abort the transactions of a cluster"),
    "pipeline": CommandEntry("pipeline", "archive, replay, mirror and query topics with Spark"),
    "mirror": CommandEntry("mirror", "copy topics of Kafka 0.7 into another cluster"),
    "log": CommandEntry("log", "check, repair or print the files of a data directory"),
    "registry": CommandEntry("registry.registry", "check, restore or copy a registry, or accept a lost data directory"),
    "decode": CommandEntry("decode.decode", "print a frame or a capture as a tree"),
    "completion": CommandEntry("completion.completion", "print the script by which a shell completes this command"),
    "protocol": CommandEntry("protocol.protocol", "look up APIs, versions, fields and error codes"),
}
"""In the order of the help: daily tasks, clusters and their users, pipelines, files, protocol."""


def build(name: str, parser: Parser) -> None:
    """Import the module of the command `name`, and let it add arguments to `parser`."""
    import_module(f"ottla.cli.{COMMANDS[name].module}").build(parser)
