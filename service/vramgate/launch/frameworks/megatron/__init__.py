"""Megatron-LM: its arguments, and the model that they describe."""
