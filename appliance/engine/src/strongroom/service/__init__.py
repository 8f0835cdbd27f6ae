"""What the three daemons share."""
