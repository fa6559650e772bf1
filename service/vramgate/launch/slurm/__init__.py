"""What is asked of Slurm: its options, and the machine they ask for."""
