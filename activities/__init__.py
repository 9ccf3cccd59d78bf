"""Activities: one effect each on AWS or Kubernetes, safe to repeat.

One module per capability, named as in ``contracts``. :func:`activities.registry.activities_for` builds them.
"""
