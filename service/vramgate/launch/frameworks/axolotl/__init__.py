"""axolotl: its YAML and its command line."""
