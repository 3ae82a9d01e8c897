"""What mkdocs adds to the pages of docs/, generated from the sources."""
