"""What is known to mislead about a job that runs: said with the answer, refusing nothing.

The cost model adds what needs its numbers; here stands what the fields alone tell.
"""
