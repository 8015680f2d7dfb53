"""One partition on disk, in Apache Kafka's file formats. Knows no other partition, no client and no network."""
