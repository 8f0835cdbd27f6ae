"""The steps that set a machine up. Each checks what is there, and does what is missing."""
