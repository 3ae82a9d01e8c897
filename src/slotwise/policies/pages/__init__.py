"""Pages beyond one choice: pinned links, many views ahead, every kind of visitor."""
