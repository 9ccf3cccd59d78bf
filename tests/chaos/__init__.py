"""Seeded schedules of operations and faults on the local stack, and what must hold after each."""
