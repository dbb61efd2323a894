"""Conversations from other homes and programs."""
