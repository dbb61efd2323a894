"""Sessions that a session starts for a task of their own."""
