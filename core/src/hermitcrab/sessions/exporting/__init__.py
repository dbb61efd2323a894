"""Conversations as files for people and other programs."""
