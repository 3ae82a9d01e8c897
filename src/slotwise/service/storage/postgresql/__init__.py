"""The shared store: one PostgreSQL database, many replicas."""
