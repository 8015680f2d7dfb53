"""The parts that all commands share: arguments, connections, profiles, tables, times and exit codes."""
