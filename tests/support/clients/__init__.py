"""Other people's Python clients and Ottla's own, behind one face: the same behaviours are asked of each."""

from __future__ import annotations

from tests.support.clients.aio import AioKafka
from tests.support.clients.confluent import Confluent
from tests.support.clients.face import Client, Member, Message
from tests.support.clients.kafka_python import KafkaPython
from tests.support.clients.own import Own

CLIENTS: tuple[type[Client], ...] = (Confluent, KafkaPython, AioKafka, Own)

__all__ = ["CLIENTS", "Client", "Member", "Message"]
