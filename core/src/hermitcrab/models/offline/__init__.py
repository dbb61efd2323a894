"""The offline model: extractive, deterministic, without a network (design 7, "no model configured")."""
