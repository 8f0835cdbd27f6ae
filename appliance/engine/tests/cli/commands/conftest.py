from kit.looking_site import site

__all__ = ["site"]
