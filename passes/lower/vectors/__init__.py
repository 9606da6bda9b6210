"""Vector loops become code on vectors (`walk.py`)."""

from .walk import vectorise

__all__ = ["vectorise"]
