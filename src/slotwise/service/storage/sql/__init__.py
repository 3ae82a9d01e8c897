"""What the SQL stores share: statements, reads and the group commit."""
