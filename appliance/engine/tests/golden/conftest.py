from kit.director_fixtures import director

__all__ = ["director"]
