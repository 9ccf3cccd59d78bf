"""SGLang routers: their Deployments, Services, and the account by which they look for model servers.

https://docs.sglang.ai/advanced_features/sgl_model_gateway.html
"""
