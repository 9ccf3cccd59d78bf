"""Scripts that really run: a container whose command is Python with a file of a ConfigMap that the sandbox was started
with (``--program PATH``) is a process of this machine, with directories for its volumes. Nothing else is ever run.
"""
