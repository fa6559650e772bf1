"""What makes a job impossible whatever the card: rules across its fields."""
