"""What the other floors use, and what knows no checkpoint."""
