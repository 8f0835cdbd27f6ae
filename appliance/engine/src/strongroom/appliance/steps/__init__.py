"""The steps that set a machine up. Each looks at what is there, and does what is missing."""
