"""Who may take the platform's role, and what opens the keys of Temporal's payloads."""

from __future__ import annotations

from typing import Any

from temporal.kms import CONTEXT

Document = dict[str, Any]

CODEC_KEY: Document = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Sid": "OpenCodecKey",
            "Effect": "Allow",
            "Action": ["kms:Decrypt", "kms:Encrypt"],
            "Resource": "arn:aws:kms:*:*:key/*",
            "Condition": {
                "StringEquals": {
                    **{f"kms:EncryptionContext:{key}": value for key, value in CONTEXT.items()},
                    "aws:ResourceAccount": "${aws:PrincipalAccount}",
                }
            },
        }
    ],
}
"""Only where the keys of Temporal's payloads lie encrypted with a KMS key. (``temporal/kms.py``)"""


def trusts() -> dict[str, Document]:
    """Trust policies of the worker's role, by where the worker runs."""
    return {
        "eks-pod-identity": _trust("pods.eks.amazonaws.com", "sts:AssumeRole", "sts:TagSession"),
        "ecs": _trust("ecs-tasks.amazonaws.com", "sts:AssumeRole"),
        "ec2": _trust("ec2.amazonaws.com", "sts:AssumeRole"),
    }


def _trust(service: str, *actions: str) -> Document:
    return {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Principal": {"Service": service},
                "Action": actions[0] if len(actions) == 1 else list(actions),
            }
        ],
    }
