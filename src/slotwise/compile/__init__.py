"""How arithmetic becomes machine code: decorators, linking, and what is stored on disk."""
