"""Embedding providers: which one is chosen, how it is asked, and what its answers must be (memory 5)."""
