"""The checks of this machine: the limits of its processes, and Ottla's optional libraries."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

from ottla.cli.doctor.findings import OK, WARN, HealthFinding

FEW_FILES = 1024
EXTRAS = {
    "arrow": ("pyarrow", "numpy"),
    "formats": ("fastavro", "google.protobuf", "msgpack", "jsonschema"),
    "spark": ("pyspark",),
    "zookeeper": ("kazoo",),
    "oauth": ("jwt",),
    "pkcs12": ("cryptography",),
    "gssapi": ("gssapi",),
}
"""The extras of the package that users of clients install, with the modules of each."""


def check_machine() -> Iterator[HealthFinding]:
    """Yield findings about this computer: its limit of open files, and the installed extras."""
    yield from _limits()
    there = [name for name, modules in EXTRAS.items() if all(map(_is_installed, modules))]
    missing = [name for name in EXTRAS if name not in there]
    sentence = f"installed: {', '.join(there) or 'none'}."
    if missing:
        sentence += f" Install others if you need them, as with pip install 'ottla[{missing[0]}]': {', '.join(missing)}."
    yield HealthFinding(OK, "extras", sentence)


def _limits() -> Iterator[HealthFinding]:
    try:
        import resource
    except ImportError:  # not on Windows
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        yield HealthFinding(OK, "limits", "a process may open any number of files and connections.")
    elif soft < FEW_FILES:
        most = "more" if hard == resource.RLIM_INFINITY else f"up to {hard}"
        yield HealthFinding(
            WARN, "limits", f"a process may open {soft} files and connections only: raise it, as with `ulimit -n` ({most} allowed)."
        )
    else:
        yield HealthFinding(OK, "limits", f"a process may open {soft} files and connections.")


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ImportError:  # the package of a submodule is missing
        return False
