"""The words of the system: specs, views, decisions, problems, resource names and the signatures of activities.

Nothing in here does I/O or knows another package of the project.
"""
