"""A site's own words about a job: annotations, variables, lines of a script."""
