"""The answer file: its model, how it is read and checked, its schema and reference."""
