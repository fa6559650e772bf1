"""Kubernetes objects: containers, counts, cards, and a site's own annotations."""
