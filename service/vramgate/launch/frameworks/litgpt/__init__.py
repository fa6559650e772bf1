"""litgpt: its command line and its configurations."""
