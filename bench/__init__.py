"""Benchmarks, each comparing with a baseline in the same run. ``python -m bench`` runs them and prints a report."""
