"""From the frameworks' own words to a job, with the place of each word."""
