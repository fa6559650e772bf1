"""torchtune: recipes, configurations and overrides."""
