"""Logs of containers: reading them in pages, following them, and keeping them in the cluster's bucket.

``api`` asks Kubernetes, ``splitting`` makes lines of bytes, ``pods`` knows what runs, ``streams`` reads one container
over its restarts and over cut connections, ``chunks`` is the bucket's side. ``keep``, ``read`` and ``follow`` are the
activities.
"""
