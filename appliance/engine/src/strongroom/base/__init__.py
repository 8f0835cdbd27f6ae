"""What every room uses: errors, time and randomness, progress, text to be shown."""
