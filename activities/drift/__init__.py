"""Looking for drift: what a cluster is made of now, read only, told as members.

What cannot be read is told so, and is never taken for gone.
"""
