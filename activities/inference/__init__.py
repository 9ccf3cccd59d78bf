"""Model servers as they are called: through the Kubernetes API, never by an address of their own."""
