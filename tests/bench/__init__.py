"""``make bench``: times taken side by side in one run; ratios travel between machines."""
