from .running import reproduce, reproduce_all

__all__ = ["reproduce", "reproduce_all"]
