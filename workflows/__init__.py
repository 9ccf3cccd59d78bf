"""What happens in which order, and what waits for whom. Deterministic: no I/O, no clock but the workflow's."""
