"""What is known about models and accelerators, and by which names the world calls them."""
