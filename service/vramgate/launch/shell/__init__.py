"""Scripts and command lines: words after expansion, commands in order; nothing is run."""
