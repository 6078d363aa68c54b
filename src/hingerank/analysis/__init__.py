"""What fitted models look like inside."""
