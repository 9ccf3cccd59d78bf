"""Managed features: each kind of part is looked at, ensured and removed by one class.

Looking is the one truth: reading, planning, waiting and the comparison before an effect all use it.
"""
