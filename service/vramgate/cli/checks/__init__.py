"""What ``vramgate check`` asks about files, and how it tells the answers."""
