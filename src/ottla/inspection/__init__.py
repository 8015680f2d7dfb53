"""Records and times as people choose and read them: filters, searches and forms that commands and pages share. No I/O."""
