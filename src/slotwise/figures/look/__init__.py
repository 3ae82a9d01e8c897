"""What all figures share: style, lettering, lines of policies, and how files are written."""
