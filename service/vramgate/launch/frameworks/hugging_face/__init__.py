"""Hugging Face's Trainer and the scripts around it."""
