"""A blocking client of a schema registry with Confluent's HTTP API."""

from __future__ import annotations

import base64
import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import Any

from ottla.errors import KafkaError
from ottla.schemas.schema import AVRO, JSON, PROTOBUF, ValueSchema

TIMEOUT_S = 10
CALL_TIMEOUT_S = 30
MOST_REFERENCES = 1000
MOST_REASON_BYTES = 1 << 20
REFUSAL_BYTES = 300
"""The number of bytes of a refusal that are shown."""
MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"
TYPES = {AVRO: "AVRO", JSON: "JSON", PROTOBUF: "PROTOBUF"}
_FORMATS = {type_name: name for name, type_name in TYPES.items()}


class RegistryError(KafkaError, ValueError):
    """A schema registry answered, but not with a usable schema."""


class RefusedByRegistry(KafkaError):
    """A schema registry refused a request. `code` is the registry's number of the reason."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class RegistryClient:
    """A schema registry at a URL, which can contain a user and a password. Every method raises `KafkaError` if there is no answer.

    Protobuf schemas are requested as descriptors. `option` and `instead` are for error messages: the option that has the URL, and
    the options with which the user can name a file of descriptors instead.
    """

    keeps_sets = False

    def __init__(self, url: str, option: str, instead: str) -> None:
        parts = urllib.parse.urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
        self.url = urllib.parse.urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))
        self._option, self._instead = option, instead
        self._headers = {"Accept": MEDIA_TYPE, "Content-Type": MEDIA_TYPE}
        if parts.username is not None:
            user = f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
            self._headers["Authorization"] = f"Basic {base64.b64encode(user.encode()).decode()}"

    def by_id(self, schema_id: int, format_name: str = "") -> ValueSchema | None:
        """Return the schema with this id; None for an unknown id. For Protobuf, a known `format_name` saves a second request."""
        found = self._find(f"/schemas/ids/{schema_id}", format_name)
        return None if found is None else self._schema(found, format_name, f"schema {schema_id}")._replace(schema_id=schema_id)

    def latest(self, subject: str, format_name: str = "") -> ValueSchema | None:
        """Return the newest schema of a subject; None for an unknown subject."""
        found = self._find(f"{_versions(subject)}/latest", format_name)
        return None if found is None else self._schema(found, format_name, f"subject {subject}")._replace(schema_id=self._id(found))

    def register(self, subject: str, format_name: str, text: str) -> int:
        """Register a schema under a subject, unless the subject has it already. Return the schema's id."""
        body = json.dumps({"schema": text, "schemaType": TYPES[format_name]}).encode()
        found = self._request(_versions(subject), body)
        if found is None:
            raise RegistryError(f"The schema registry at {self.url} takes no schema for subject {subject}: check {self._option}.")
        return self._id(found)

    def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Send a request, and return the JSON of the answer. Raises `RefusedByRegistry` with the registry's reason."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, self._headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=CALL_TIMEOUT_S) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise self._refusal_of(error) from None
        except (OSError, ValueError, RecursionError, http.client.HTTPException) as error:
            why = getattr(error, "reason", error)
            raise KafkaError(f"The schema registry at {self.url} does not answer ({why}): check {self._option}.") from None

    def _refusal_of(self, error: urllib.error.HTTPError) -> RefusedByRegistry:
        try:
            with error:
                found = json.loads(error.read(MOST_REASON_BYTES))
            code, message = int(found["error_code"]), " ".join(str(found["message"]).split()).rstrip(".")
        except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError, RecursionError):
            code, message = error.code, f"HTTP status {error.code}"
        advice = f"give a user and a password in the URL of {self._option}" if error.code == 401 else f"error {code}"
        return RefusedByRegistry(f"The schema registry at {self.url} refused it: {message} ({advice}).", code)

    def _find(self, path: str, format_name: str) -> dict[str, Any] | None:
        found = self._request(path + _query(format_name))
        if found is None or format_name or found.get("schemaType") != TYPES[PROTOBUF]:
            return found
        return self._request(path + _query(PROTOBUF))

    def _schema(self, found: dict[str, Any], wanted: str, where: str) -> ValueSchema:
        type_name = str(found.get("schemaType") or TYPES[AVRO])
        format_name = _FORMATS.get(type_name, type_name[:20])
        texts: dict[str, bytes] = {}
        self._gather(found, texts, "", is_protobuf=(wanted or format_name) == PROTOBUF)
        return ValueSchema(format_name, tuple(texts.values()), where, names=tuple(texts)[:-1])

    def _gather(self, found: dict[str, Any], texts: dict[str, bytes], name: str, *, is_protobuf: bool) -> None:
        """Add to `texts` the schemas that a schema refers to, and then the schema itself."""
        try:
            references = [(each["name"], each["subject"], each["version"]) for each in found.get("references") or ()]
            text = found["schema"].encode()
        except (KeyError, TypeError, AttributeError, UnicodeEncodeError):
            raise self._no_registry() from None
        for inner, subject, version in references:
            if inner not in texts and len(texts) < MOST_REFERENCES:
                texts[inner] = b""  # so that a circular reference is requested once
                other = self._request(f"{_versions(str(subject))}/{version}{_query(PROTOBUF if is_protobuf else '')}")
                if other is not None:
                    self._gather(other, texts, inner, is_protobuf=is_protobuf)
        try:
            texts.pop(name, None)
            texts[name] = base64.b64decode(text, validate=True) if is_protobuf else text
        except ValueError:
            raise RegistryError(
                f"The schema registry at {self.url} gives schemas of Protobuf as text alone: name a file of descriptors with "
                f"{self._instead}; protoc makes it, also the one of pip install grpcio-tools."
            ) from None

    def _id(self, found: dict[str, Any]) -> int:
        schema_id = found.get("id")
        if type(schema_id) is not int or not 0 <= schema_id < 1 << 32:
            raise self._no_registry()
        return schema_id

    def _no_registry(self) -> RegistryError:
        return RegistryError(f"The server at {self.url} is not a schema registry: check {self._option}.")

    def read(self, path: str) -> Any:
        """Return what the registry has at a path, such as `/subjects`, as JSON; None for what it does not have."""
        return self._fetch(path)

    def _request(self, path: str, body: bytes | None = None) -> dict[str, Any] | None:
        found = self._fetch(path, body)
        if found is not None and not isinstance(found, dict):
            raise self._no_registry()
        return found

    def _fetch(self, path: str, body: bytes | None = None) -> Any:
        request = urllib.request.Request(self.url + path, body, self._headers)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            refusal = _refusal(error)
            if error.code == 404 and '"error_code"' in refusal:  # only a registry answers with this
                return None
            raise KafkaError(
                f"The schema registry at {self.url} answered {error.code} to {path} ({refusal}): check {self._option}."
            ) from None
        except (OSError, ValueError, RecursionError, http.client.HTTPException) as error:
            why = getattr(error, "reason", error)
            raise KafkaError(f"The schema registry at {self.url} does not answer ({why}): check {self._option}.") from None


def _versions(subject: str) -> str:
    return f"/subjects/{urllib.parse.quote(subject, safe='')}/versions"


def _query(format_name: str) -> str:
    return "?format=serialized" if format_name == PROTOBUF else ""


def _refusal(error: urllib.error.HTTPError) -> str:
    """Return the beginning of an error response as one line; less of it, or nothing, if the connection breaks."""
    with error:
        try:
            return " ".join(error.read(REFUSAL_BYTES).decode(errors="replace").split())
        except (OSError, http.client.HTTPException):
            return ""
