"""The table of the console's pages and actions. Each line is a page for people, and below /api the same for programs."""

from __future__ import annotations

from ottla.console.declarations import Action, Download, Page
from ottla.console.views import (
    access,
    brokers,
    client_metrics,
    configs,
    decoder,
    groups,
    messages,
    overview,
    produce,
    schemas,
    topic_details,
    topics,
    transactions,
)

PAGES = (
    Page("/", overview.overview, "overview.html", "Overview", menu="Overview"),
    Page("/topics", topics.topics, "topics.html", "Topics", menu="Topics"),
    Page("/topics/{topic}", topic_details.topic, "topic.html", "Topic"),
    Page("/topics/{topic}/config", configs.topic_config, "config.html", "Settings of a topic", refresh_s=0),
    Page("/topics/{topic}/messages", messages.messages, "messages.html", "Messages", refresh_s=1.0),
    Page("/topics/{topic}/messages/{partition}/{offset}", messages.message, "message.html", "Message", refresh_s=0),
    Page("/topics/{topic}/produce", produce.produce_form, "produce.html", "Write a message", refresh_s=0),
    Page("/groups", groups.groups, "groups.html", "Groups", menu="Groups"),
    Page("/groups/{group}", groups.group, "group.html", "Group"),
    Page("/groups/{group}/reset", groups.reset_preview, "group_reset.html", "Reset of offsets", refresh_s=0),
    Page("/clients", client_metrics.clients, "clients.html", "Clients", menu="Clients"),
    Page("/clients/{instance}", client_metrics.client, "client.html", "Client"),
    Page("/brokers", brokers.brokers, "brokers.html", "Brokers", menu="Brokers"),
    Page("/brokers/{node_id}", brokers.broker, "broker.html", "Broker"),
    Page("/brokers/{node_id}/config", configs.broker_config, "config.html", "Settings of a broker", refresh_s=0),
    Page("/configs", configs.configs, "configs.html", "Settings", menu="Settings", refresh_s=0),
    Page("/configs/brokers", configs.brokers_config, "config.html", "Settings of all brokers", refresh_s=0),
    Page("/users", access.users, "users.html", "Users", menu="Users", refresh_s=0),
    Page("/acls", access.acls, "acls.html", "ACLs", menu="ACLs", refresh_s=0),
    Page("/quotas", access.quotas, "quotas.html", "Quotas", menu="Quotas", refresh_s=0),
    Page("/transactions", transactions.transactions, "transactions.html", "Transactions", menu="Transactions"),
    Page("/transactions/{transactional_id}", transactions.transaction, "transaction.html", "Transaction", refresh_s=0),
    Page("/schemas", schemas.schemas, "schemas.html", "Schemas", menu="Schemas", refresh_s=0),
    Page("/schemas/{subject}", schemas.schema, "schema.html", "Schema", refresh_s=0),
    Page("/decoder", decoder.decoder, "decoder.html", "Protocol decoder", menu="Decoder", refresh_s=0, takes_post=True),
)
ACTIONS = (
    Action("/topics", topics.create_topic, "/topics"),
    Action("/topics/{topic}/delete", topics.delete_topic, "/topics/{topic}"),
    Action("/topics/{topic}/partitions", topics.add_partitions, "/topics/{topic}"),
    Action("/topics/{topic}/produce", produce.produce_message, "/topics/{topic}/produce"),
    Action("/groups/{group}/reset", groups.reset_offsets, "/groups/{group}/reset"),
    Action("/groups/{group}/forget", groups.delete_group_offsets, "/groups/{group}"),
    Action("/groups/{group}/remove-member", groups.remove_member, "/groups/{group}"),
    Action("/groups/{group}/delete", groups.delete_group, "/groups/{group}"),
    Action("/topics/{topic}/config", configs.set_topic_config, "/topics/{topic}/config"),
    Action("/brokers/{node_id}/config", configs.set_broker_config, "/brokers/{node_id}/config"),
    Action("/configs/brokers", configs.set_brokers_config, "/configs/brokers"),
    Action("/users", access.set_user, "/users"),
    Action("/users/remove", access.remove_user, "/users"),
    Action("/acls", access.add_acl, "/acls"),
    Action("/acls/remove", access.remove_acl, "/acls"),
    Action("/quotas", access.set_quota, "/quotas"),
    Action("/transactions/abort", transactions.abort_hanging, "/transactions"),
    Action("/transactions/{transactional_id}/terminate", transactions.terminate_transaction, "/transactions/{transactional_id}"),
)
DOWNLOADS = (Download("/download/{topic}/{partition}/{offset}/{side}", messages.download),)
