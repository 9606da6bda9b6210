"""The steps of schedules, which `script.py` names, with what they change."""
