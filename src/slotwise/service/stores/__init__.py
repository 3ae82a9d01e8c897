"""Where the service keeps what it must not lose."""
