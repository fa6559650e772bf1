"""torchtitan: its TOML, its registry, its command line."""
