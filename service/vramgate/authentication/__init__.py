"""From what a caller shows to who it is: our own tokens, and those of an OpenID provider."""
