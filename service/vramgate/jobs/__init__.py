"""From what a person said about a training run to the resolved job that the cost model takes."""
