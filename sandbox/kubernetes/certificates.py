"""The certificate authority of the sandbox's clusters and the server's certificate.

Named as EKS names its CA (CN=kubernetes). Subject and authority key identifiers are in both, which Python 3.13 demands.
"""

from __future__ import annotations

import ipaddress
import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_LIFETIME = timedelta(days=3650)
_RENEW_BEFORE = timedelta(days=30)


@dataclass(frozen=True)
class Certificates:
    """PEM of the CA, and the files that a TLS server needs."""

    authority: str
    certificate_file: Path
    key_file: Path


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _alternative_names(hosts: list[str]) -> x509.SubjectAlternativeName:
    names: list[x509.GeneralName] = []
    for host in hosts:
        try:
            names.append(x509.IPAddress(ipaddress.ip_address(host)))
        except ValueError:
            names.append(x509.DNSName(host))
    return x509.SubjectAlternativeName(names)


def _usage(authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=not authority,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=authority,
        crl_sign=authority,
        encipher_only=False,
        decipher_only=False,
    )


def _issue(
    subject: str, key: ec.EllipticCurvePrivateKey, issuer: str, issuer_key: ec.EllipticCurvePrivateKey, hosts: list[str]
) -> x509.Certificate:
    """A CA's certificate without hosts, a server's with them."""
    authority = not hosts
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .issuer_name(_name(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + _LIFETIME)
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .add_extension(_usage(authority), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
    )
    if not authority:
        builder = builder.add_extension(_alternative_names(hosts), critical=False).add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False
        )
    return builder.sign(issuer_key, hashes.SHA256())


def _write(path: Path, content: bytes) -> None:
    """Keys are for the owner's eyes only, from the first byte on."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _still_good(certificate_file: Path, hosts: list[str]) -> bool:
    try:
        certificate = x509.load_pem_x509_certificate(certificate_file.read_bytes())
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (OSError, ValueError, x509.ExtensionNotFound):
        return False
    return names == _alternative_names(hosts) and certificate.not_valid_after_utc > datetime.now(UTC) + _RENEW_BEFORE


def ensure(folder: Path, hosts: list[str]) -> Certificates:
    """The folder's CA and server certificate, made where they are missing, too old or for other hosts.

    The CA stays the same over restarts, so that kubeconfigs written before go on working.
    """
    folder.mkdir(parents=True, exist_ok=True)
    authority_file, authority_key_file = folder / "ca.crt", folder / "ca.key"
    certificate_file, key_file = folder / "server.crt", folder / "server.key"
    if not (authority_file.exists() and authority_key_file.exists()):
        authority_key = ec.generate_private_key(ec.SECP256R1())
        authority = _issue("kubernetes", authority_key, "kubernetes", authority_key, [])
        _write(authority_key_file, _pem(authority_key))
        _write(authority_file, authority.public_bytes(serialization.Encoding.PEM))
        certificate_file.unlink(missing_ok=True)
    if not (key_file.exists() and _still_good(certificate_file, hosts)):
        loaded = serialization.load_pem_private_key(authority_key_file.read_bytes(), None)
        assert isinstance(loaded, ec.EllipticCurvePrivateKey)
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = _issue("kube-apiserver", key, "kubernetes", loaded, hosts)
        _write(key_file, _pem(key))
        _write(certificate_file, certificate.public_bytes(serialization.Encoding.PEM))
    return Certificates(authority_file.read_text(), certificate_file, key_file)
