"""Transcripts and entry tables that were damaged: found, mended, made again (design 5)."""
