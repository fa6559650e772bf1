"""One file per thing the service does: load, call the domain, keep."""
