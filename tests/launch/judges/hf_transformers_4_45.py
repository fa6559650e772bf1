"""Judges the launches that name transformers 4.45 with that version's own parser; see hf_transformers.py."""

# requires: transformers==4.45.2 accelerate==1.0.1 torch==2.13.0 numpy==1.26.4
# goldens: transformers

import runpy
from pathlib import Path

if __name__ == "__main__":
    runpy.run_path(str(Path(__file__).with_name("hf_transformers.py")), run_name="__main__")
