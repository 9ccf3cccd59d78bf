"""How we use Temporal: the connection and its profile, payloads on the wire, and what a namespace must have."""
