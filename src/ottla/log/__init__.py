"""One partition on disk, in Apache Kafka's file formats. Other partitions, clients and networks are unknown here."""
