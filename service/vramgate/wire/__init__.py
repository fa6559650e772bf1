"""Pydantic shapes of what comes in and goes out; they turn into domain values and know no web framework."""
