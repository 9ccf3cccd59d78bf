"""Credentials of a cluster: tokens for other services (Hugging Face), each a Secret in the namespace that uses it.

A token comes to the gateway once and leaves it sealed (``contracts/sealing.py``); a worker opens it and writes the
Secret. Nothing answers with it.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated

from pydantic import AfterValidator, Field, SecretStr, field_validator

from contracts.activity import Act, Queue
from contracts.model import Ensured, Model
from contracts.names import CREDENTIAL_NAME
from contracts.network import Scope
from contracts.objects import DEFAULT_NAMESPACE, ObjectName
from contracts.sealing import SEALED

LONGEST_TOKEN = 4096
_TOKEN = re.compile(r"[\x21-\x7e]+")


def _check_name(name: str) -> str:
    if violation := CREDENTIAL_NAME.violation(name):
        raise ValueError(violation)
    return name


CredentialName = Annotated[str, AfterValidator(_check_name)]
"""Its Secret is called after it."""


class CredentialRequest(Model):
    """What is sent to store a credential."""

    token: SecretStr
    """E.g. an access token of Hugging Face with read permission. Kept as a Secret of the cluster; never shown again."""
    namespace: ObjectName = DEFAULT_NAMESPACE
    """Where its users run: pods refer only to Secrets of their own namespace."""

    @field_validator("token")
    @classmethod
    def _shape(cls, token: SecretStr) -> SecretStr:
        # What is wrong is said without the value.
        text = token.get_secret_value()
        if not 1 <= len(text) <= LONGEST_TOKEN:
            raise ValueError(f"a token has 1 to {LONGEST_TOKEN} characters, not {len(text)}")
        if not _TOKEN.fullmatch(text):
            raise ValueError("a token has no spaces, line breaks or characters beyond ASCII")
        return token


class StoreCredentialSpec(Model):
    """A credential on its way into its Secret."""

    name: CredentialName = Field(examples=["huggingface"])
    namespace: ObjectName = DEFAULT_NAMESPACE
    sealed: str = Field(pattern=SEALED, max_length=3 * LONGEST_TOKEN)
    """The token, sealed by the gateway."""


class DeleteCredentialSpec(Model):
    name: CredentialName
    namespace: ObjectName = DEFAULT_NAMESPACE


class CredentialView(Model):
    """A credential as lists show it: everything but its value."""

    name: str
    namespace: str
    secret: str
    """Its Secret's name."""
    key: str
    """Where in the Secret the token is."""
    created_at: datetime
    used_by: list[str] = Field(default_factory=list)
    """What refers to the Secret, as ``Kind name``: finished Jobs are left out."""


class CredentialList(Model):
    """The credentials of a cluster, by namespace and name."""

    credentials: list[CredentialView] = Field(default_factory=list)
    read_at: datetime


class StoreCredential(Model):
    scope: Scope
    eks_cluster: str
    spec: StoreCredentialSpec


class Credential(Ensured):
    """A credential that is stored."""

    name: str
    namespace: str
    secret: str


class DeleteCredential(Model):
    scope: Scope
    eks_cluster: str
    name: str
    namespace: str


class CredentialGone(Ensured):
    name: str
    namespace: str


class ListCredentials(Model):
    scope: Scope
    eks_cluster: str


def seal_context(cluster: str, namespace: str, name: str) -> str:
    """What a credential is sealed for: this Secret of this cluster, and no other."""
    return f"credential/{cluster}/{namespace}/{name}"


STORE_CREDENTIAL = Act("credentials.store", StoreCredential, Credential, queue=Queue.KUBERNETES)
DELETE_CREDENTIAL = Act("credentials.delete", DeleteCredential, CredentialGone, queue=Queue.KUBERNETES)
LIST_CREDENTIALS = Act("credentials.list", ListCredentials, CredentialList, queue=Queue.KUBERNETES)
