"""Media and huge tool results beside the transcript (design 5)."""
