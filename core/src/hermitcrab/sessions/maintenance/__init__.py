"""What of old sessions is kept, and for how long (sessions 2.8, 2.10)."""
