"""Where measurements run, besides what `strongroom tune` has: other programs, slow file systems."""
