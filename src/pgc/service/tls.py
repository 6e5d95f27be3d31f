"""Certificates for trying things out: an authority of one's own, and a server certificate that it
signed.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from pgc.service.private import make_private, only_one

DAYS = 30


class Files(NamedTuple):
    """The paths of the authority, the certificate and its key."""

    ca: Path
    certificate: Path
    key: Path


def make_dev_certificates(folder: Path, host: str) -> Files:
    """Makes an authority and a certificate for this host and loopback, valid for a month.

    Files that are there already are kept while they are valid. For development only. The
    authority's key is never stored, so nobody can sign anything else with it.
    """
    files = Files(folder / "ca.pem", folder / "server.pem", folder / "server.key")
    with only_one(folder):
        if not _still_good(files, host):
            _make(files, host)
    return files


def _make(files: Files, host: str) -> None:
    ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    ca_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "pgc development authority")])
    ca = (
        _builder(ca_name, ca_name, ca_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(
            x509.KeyUsage(False, False, False, False, False, True, True, False, False),
            critical=True,
        )
        .sign(ca_key, hashes.SHA256())
    )
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
    names: list[x509.GeneralName] = [
        x509.DNSName("localhost"),
        x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
    ]
    names += [_general_name(host)] if host not in ("localhost", "127.0.0.1") else []
    certificate = (
        _builder(name, ca_name, key.public_key())
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False
        )
        .sign(ca_key, hashes.SHA256())
    )
    files.ca.write_bytes(ca.public_bytes(serialization.Encoding.PEM))
    files.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    make_private(files.key)
    descriptor = os.open(files.key, os.O_WRONLY | os.O_TRUNC)
    with os.fdopen(descriptor, "wb") as out:
        plain = serialization.NoEncryption()
        out.write(
            key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
        )


def _still_good(files: Files, host: str) -> bool:
    if not all(file.is_file() for file in files):
        return False
    certificate = x509.load_pem_x509_certificate(files.certificate.read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    soon = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=1)
    return _general_name(host) in names and certificate.not_valid_after_utc > soon


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(days=DAYS))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
