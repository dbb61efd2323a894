"""Chat commands, and the settings of a session that they change."""
