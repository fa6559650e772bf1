"""DeepSpeed: its file under every trainer, and scripts that call it alone."""
