"""Answer a scheduler: what the evidence says about a job, and what a site's policy makes of it."""
