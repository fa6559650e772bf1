"""JSON over HTTP: thin; shapes come from ``wire``, answers from ``workflows``."""
