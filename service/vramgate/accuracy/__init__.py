"""How far estimates are from exact traces, from measured runs, and from what other estimators say."""
