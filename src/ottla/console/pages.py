"""The table of the console's pages and actions. Each line is a page for people, and below /api the same for programs."""

from __future__ import annotations

from ottla.console.declarations import Action, Page
from ottla.console.views import access, brokers, configs, overview, topic_details, topics, transactions

PAGES = (
    Page("/", overview.overview, "overview.html", "Overview", menu="Overview"),
    Page("/topics", topics.topics, "topics.html", "Topics", menu="Topics"),
    Page("/topics/{topic}", topic_details.topic, "topic.html", "Topic"),
    Page("/topics/{topic}/config", configs.topic_config, "config.html", "Settings of a topic", refresh_s=0),
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
)
ACTIONS = (
    Action("/topics", topics.create_topic, "/topics"),
    Action("/topics/{topic}/delete", topics.delete_topic, "/topics/{topic}"),
    Action("/topics/{topic}/partitions", topics.add_partitions, "/topics/{topic}"),
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
