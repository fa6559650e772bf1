"""LLaMA-Factory: its YAML and its command line."""
