"""Compaction: budgets, planning, summaries, and the runtime that engines delegate to."""
