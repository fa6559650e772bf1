"""Answers whether an LLM training job fits into GPU memory, and what would fit if not."""

__version__ = "0.1.0"
