"""TRL: its scripts, its command line and its configurations."""
