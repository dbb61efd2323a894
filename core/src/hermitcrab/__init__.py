"""hermitcrab: durable sessions, context, compaction and memory for agents."""
