"""The Kubernetes half of the sandbox: an API server with controllers for each EKS cluster of the AWS half."""
