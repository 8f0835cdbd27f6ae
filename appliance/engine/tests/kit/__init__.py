"""Test kit: trees that hold everything Linux keeps, and a comparer that overlooks nothing."""
