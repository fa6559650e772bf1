"""ms-swift: its command line and its configurations."""
