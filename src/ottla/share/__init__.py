"""Share partitions and share sessions as pure machines. Siblings of logs and coordinators: they import none of them."""
