"""The real disk behind `ottla.ports.Disk`: files, their syncs and deletions, and reserved space."""
