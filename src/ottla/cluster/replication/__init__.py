"""What replicas of a partition decide: the leader about its in-sync set and high watermark, the follower about what it may show."""
