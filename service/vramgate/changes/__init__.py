"""Which changes to a job would make it fit its card, smallest first, each checked by estimating it."""
