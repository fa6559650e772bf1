"""accelerate: its file, its flags, its variables."""
