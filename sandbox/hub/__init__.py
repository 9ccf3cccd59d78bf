"""A small Hugging Face Hub, for what downloads from it: https://huggingface.co/docs/hub/api

It is served under ``/_hub`` on the port of the AWS APIs: ``HF_ENDPOINT=http://127.0.0.1:5566/_hub``.
"""
