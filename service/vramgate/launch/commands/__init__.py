"""Command lines: wrappers and launchers taken off, the program that trains recognised."""
