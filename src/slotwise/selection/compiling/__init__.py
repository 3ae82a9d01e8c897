"""How arithmetic becomes machine code: linked into its callers, kept on disk, by its sources."""
