"""The commands that administrate a cluster: brokers, replicas, users, ACLs, quotas, features and transactions."""
