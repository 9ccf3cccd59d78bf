"""Models and data sets of the Hugging Face Hub: looked up, downloaded by a Job, and verified on the cluster's storage.

https://huggingface.co/docs/hub/api , https://kubernetes.io/docs/concepts/workloads/controllers/job/
"""
