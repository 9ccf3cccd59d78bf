"""The sandbox's one set of AWS credentials: what a client signs with, and who that makes it.

The caller is a role with a path behind a session, as it is for most real callers, so that code which mistakes a session
ARN for a role ARN, or drops the path, fails here and not in production.
"""

from __future__ import annotations

ACCOUNT = "123456789012"
ACCESS_KEY_ID = "SANDBOXSANDBOXSANDB1"
SECRET_ACCESS_KEY = "sandbox/secret/sandbox/secret/sandbox/01"
ROLE_NAME = "instantstart"
ROLE_PATH = "/platform/"
ROLE_ARN = f"arn:aws:iam::{ACCOUNT}:role{ROLE_PATH}{ROLE_NAME}"
SESSION_NAME = "sandbox"
SESSION_ARN = f"arn:aws:sts::{ACCOUNT}:assumed-role/{ROLE_NAME}/{SESSION_NAME}"
"""STS leaves a role's path out of its session ARNs."""
