"""The console: a thin face of the gateway for people."""
