"""The default context engine of hermitcrab, which passes messages through."""
