"""A certificate authority of one's own, a certificate for the server, and a key for every site."""

from __future__ import annotations

import datetime
import ipaddress
import os
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from ..errors import UsageError

CA_YEARS = 10
LOOPBACK = ("127.0.0.1", "::1")
"""In every certificate: a SuperLink that listens everywhere starts runs through a process that connects here."""


def make_certificates(
    folder: Path, names: Sequence[str], addresses: Sequence[str], sites: int, days: int
) -> list[Path]:
    """ca.crt, ca.key, server.pem, server.key and site-0, site-0.pub, ...: nothing that exists is overwritten.

    names, addresses: under which the sites reach the server; the certificate is valid for these and on the server.
    """
    if not names and not addresses:
        raise UsageError("give at least one --name or --address under which the sites reach the server")
    if days < 1 or sites < 0:
        raise UsageError(f"--days {days} must be at least 1 and --sites {sites} at least 0")
    alternatives = [*map(_dns_name, names), *map(_ip_address, dict.fromkeys([*addresses, *LOOPBACK]))]
    files = [folder / name for name in ("ca.crt", "ca.key", "server.pem", "server.key")]
    keys = [folder / f"site-{site}" for site in range(sites)]
    refuse_existing([*files, *keys, *(public_of(key) for key in keys)])
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    ca_key, server_key = (ec.generate_private_key(ec.SECP384R1()) for _ in range(2))
    ca = _authority(ca_key)
    server = _server_certificate(ca, ca_key, server_key, alternatives, days)
    for path, content in zip(
        files,
        (ca.public_bytes(Encoding.PEM), _pem(ca_key), server.public_bytes(Encoding.PEM), _pem(server_key)),
        strict=True,
    ):
        _write(path, content, private=path.suffix == ".key")
    written = list(files)
    for key in keys:
        written += make_site_key(key)
    return written


def make_site_key(path: Path) -> list[Path]:
    """A key pair for one more site, in the form that SuperNodes and `flwr supernode register` take."""
    refuse_existing([path, public_of(path)])
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    key = ec.generate_private_key(ec.SECP384R1())
    _write(path, key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()), private=True)
    _write(public_of(path), key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH) + b"\n")
    return [path, public_of(path)]


def public_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.pub")


def refuse_existing(paths: Sequence[Path]) -> None:
    for path in paths:
        if path.exists():
            raise UsageError(f"{path} exists and is not overwritten: a key that is in use would be lost")


def _dns_name(name: str) -> x509.GeneralName:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        try:
            return x509.DNSName(name)
        except ValueError:
            raise UsageError(f"--name {name!r} is not a host name") from None
    raise UsageError(f"--name {name!r} is an address: give it with --address")


def _ip_address(address: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(address))
    except ValueError:
        raise UsageError(f"--address {address!r} is not an IP address; give host names with --name") from None


def _authority(key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "fedvls federation CA")])
    usage = _key_usage(key_cert_sign=True, crl_sign=True)
    return (
        _builder(name, name, key, 365 * CA_YEARS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .sign(key, hashes.SHA384())
    )


def _server_certificate(
    ca: x509.Certificate,
    ca_key: ec.EllipticCurvePrivateKey,
    key: ec.EllipticCurvePrivateKey,
    alternatives: Sequence[x509.GeneralName],
    days: int,
) -> x509.Certificate:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "fedvls SuperLink")])
    return (
        _builder(subject, ca.subject, key, days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(digital_signature=True), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False)
        .sign(ca_key, hashes.SHA384())
    )


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))  # clocks of sites may be behind
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _key_usage(**allowed: bool) -> x509.KeyUsage:
    every = ("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement")
    rest = ("key_cert_sign", "crl_sign", "encipher_only", "decipher_only")
    return x509.KeyUsage(**{name: allowed.get(name, False) for name in (*every, *rest)})


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _write(path: Path, content: bytes, private: bool = False) -> None:
    """Made with its final permissions, so that a private file is never readable by others, not even for a moment."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o644)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
