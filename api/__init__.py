"""The gateway: authentication, validation, start / query / decide, live streams. It holds no state of its own."""
