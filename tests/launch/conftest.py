"""Judges run in environments of their own; here their frameworks are not installed."""

collect_ignore_glob = ["judges/*"]
