"""How far a run may be from its estimate, and what is promised about it."""
