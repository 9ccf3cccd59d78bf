"""Pools of model servers: made, handed out to services and taken back.

A pod that changes its service goes through ``business=leaving``, which no Service selects.
"""
