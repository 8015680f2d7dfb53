"""Kerberos of MIT, with a realm of its own, as tests use it. They are skipped where it is not installed."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench.apache_kafka import free_port
from tests.support.waiting import eventually

REALM = "OTTLA.TEST"
MODULE = "com.sun.security.auth.module.Krb5LoginModule"


@contextmanager
def kdc(home: Path, principals: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """The environment in which a realm is found. `principals` by the names of their keytabs, such as alice.keytab in `home`."""
    if not shutil.which("krb5kdc") or not shutil.which("kadmin.local"):
        pytest.skip("there is no MIT Kerberos (Debian's packages krb5-kdc and krb5-admin-server)")
    port = free_port()
    (home / "krb5.conf").write_text(
        f"[libdefaults]\ndefault_realm = {REALM}\ndns_lookup_kdc = false\ndns_lookup_realm = false\n"
        f"dns_canonicalize_hostname = false\nrdns = false\nudp_preference_limit = 1\ndefault_ccache_name = FILE:{home}/tickets\n"
        f"[realms]\n{REALM} = {{\n kdc = 127.0.0.1:{port}\n}}\n"
    )
    (home / "kdc.conf").write_text(
        f"[kdcdefaults]\nkdc_listen = 127.0.0.1:{port}\nkdc_tcp_listen = 127.0.0.1:{port}\n"
        f"[realms]\n{REALM} = {{\n database_name = {home}/principal\n key_stash_file = {home}/stash\n"
        " supported_enctypes = aes256-cts-hmac-sha1-96:normal\n}\n"
    )
    environment = {"KRB5_CONFIG": str(home / "krb5.conf"), "KRB5_KDC_PROFILE": str(home / "kdc.conf")}
    everything = os.environ | environment

    def call(*command: str) -> None:
        subprocess.run(command, env=everything, check=True, capture_output=True, timeout=60)

    call("kdb5_util", "create", "-s", "-P", "secret", "-W")
    for name, principal in principals.items():
        call("kadmin.local", "-q", f"addprinc -randkey {principal}")
        call("kadmin.local", "-q", f"ktadd -k {home / name}.keytab {principal}")
    with subprocess.Popen(["krb5kdc", "-n", "-P", str(home / "pid")], env=everything, stderr=subprocess.DEVNULL) as process:
        try:
            first = next(iter(principals))
            ready = ["kinit", "-k", "-t", str(home / f"{first}.keytab"), f"{principals[first]}@{REALM}"]
            eventually(lambda: subprocess.run(ready, env=everything, capture_output=True, timeout=20).returncode == 0)
            yield environment
        finally:
            process.terminate()
