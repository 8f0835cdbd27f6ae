from kit.memory_fixtures import tmp_path

__all__ = ["tmp_path"]
