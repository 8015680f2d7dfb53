"""Records, times and frames as people choose and read them: what commands and pages share. No I/O."""
