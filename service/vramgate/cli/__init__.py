"""The command ``vramgate``: one module per subcommand."""
