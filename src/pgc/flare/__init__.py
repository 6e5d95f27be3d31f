"""pgc in NVIDIA FLARE: a site sends ε-LDP reports (`site.py`), and a workflow on the server learns
from them (`workflow.py`). docs/flare.md says what the owner of a site has to configure, and why.
"""
