"""Other people's Python clients, behind one face: the same behaviours are asked of each."""

from __future__ import annotations

from tests.support.clients.aio import AioKafka
from tests.support.clients.confluent import Confluent
from tests.support.clients.face import Client, Member, Message
from tests.support.clients.kafka_python import KafkaPython

CLIENTS: tuple[type[Client], ...] = (Confluent, KafkaPython, AioKafka)

__all__ = ["CLIENTS", "Client", "Member", "Message"]
