"""Trainings that pods carry out together: how far they are, what they print, how they end. No code of theirs runs."""
