"""A laptop-sized HyperPod: simulated AWS and Kubernetes APIs with one clock, faults and a ledger.

Nothing in here knows the product. It speaks the wire formats of AWS and Kubernetes, so that the product cannot tell
that it is there, except by an endpoint URL.
"""
