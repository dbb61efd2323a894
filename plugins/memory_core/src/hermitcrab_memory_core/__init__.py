"""The default memory of hermitcrab, Markdown files behind a SQLite index."""
