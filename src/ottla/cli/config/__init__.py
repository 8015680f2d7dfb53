"""`ottla config`: the settings of topics, brokers, groups, loggers and client metrics."""
