"""The local stack: Temporal, the sandbox, a worker and the gateway as child processes of one supervisor."""
