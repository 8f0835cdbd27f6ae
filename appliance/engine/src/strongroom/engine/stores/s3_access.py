"""Access keys, region and endpoint, found where Amazon's own programs find them.

Keys in the environment, or as they are in ~/.aws/credentials and ~/.aws/config, are read here: that
is the usual way, and costs nothing. For all other keys (a role, SSO, a program, the role of a
machine or container) botocore is imported, which takes a third of a second; it also renews them.
"""

from __future__ import annotations

import configparser
import logging
import os
from collections.abc import Mapping
from typing import Any, Final

from strongroom.base.errors import StoreError
from strongroom.base.printable import printable
from strongroom.engine.stores.s3_signing import AccessKeys

USUAL_REGION: Final = "us-east-1"
# What a profile has whose keys come from elsewhere.
_OF_A_ROLE: Final = ("role_arn", "web_identity_token_file", "credential_process", "login_session")
_SSO: Final = "sso_"


class PassingError(StoreError):
    """A failure that may be gone at the next attempt."""


class Access:
    """What the environment and the files say now. shown: the place, for messages.

    Safe from any thread. What is found is kept over a fork.
    """

    def __init__(self, shown: str) -> None:
        self._shown = shown
        # As Amazon's programs do: these variables are theirs, so no setting of ours names them.
        self._environment = dict(os.environ)
        self._config = self._file("AWS_CONFIG_FILE", "config")
        self._config_file = self._of_profile(self._config)
        self._credentials_file = self._of_profile(
            self._file("AWS_SHARED_CREDENTIALS_FILE", "credentials")
        )
        # Of a profile in both files the second one holds.
        self._settings = {**self._config_file, **self._credentials_file}
        self._static = self._static_keys()
        self._credentials: Any = None
        self.region = (
            self._first("AWS_DEFAULT_REGION", "AWS_REGION") or self._of("region") or USUAL_REGION
        )
        self._s3 = _nested(self._settings, "s3")
        # path, virtual or auto: whether the bucket is in a request's path or in its host.
        self.addressing_style = self._s3.get("addressing_style", "auto")
        self.authorities_file = (
            self._first("AWS_CA_BUNDLE")
            or self._of("ca_bundle")
            or self._first("REQUESTS_CA_BUNDLE")
        )

    def keys(self) -> AccessKeys:
        """The keys for a request now. Raises StoreError; PassingError where it may work later."""
        keys = self._static or self._keys_of_a_role()
        # http.client would show in its error what it refuses to send.
        if not all(text.isascii() and text.isprintable() for text in (keys.key_id, keys.token)):
            raise StoreError(
                f"{self._shown}: the access key or its session token has a line break or another "
                "character that it cannot have; correct the environment or ~/.aws/credentials"
            )
        return keys

    @property
    def endpoint(self) -> str:
        """The server that is named for S3, "" where none is. Raises StoreError."""
        if self._is_wanted("ignore_configured_endpoint_urls"):
            return ""
        return (
            self._first("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
            or self._of_services().get("endpoint_url")
            or self._of("endpoint_url")
        )

    def host_in(self, region: str) -> str:
        """Amazon's server for a region."""
        fips = "-fips" if self._is_wanted("use_fips_endpoint") else ""
        # As Amazon's programs read it, the only one of these that may be among the settings for S3.
        is_dual = _is_true(self._s3.get("use_dualstack_endpoint", ""))
        is_dual = is_dual or self._is_wanted("use_dualstack_endpoint")
        dual = "dualstack." if is_dual else ""
        china = ".cn" if region.startswith("cn-") else ""
        return f"s3{fips}.{dual}{region}.amazonaws.com{china}"

    def _is_wanted(self, name: str) -> bool:
        return _is_true(self._first(f"AWS_{name.upper()}") or self._of(name))

    @property
    def _profile(self) -> str:
        return self._first("AWS_DEFAULT_PROFILE", "AWS_PROFILE") or "default"

    def _first(self, *names: str) -> str:
        return next((text for name in names if (text := self._environment.get(name, ""))), "")

    def _of(self, name: str) -> str:
        return self._settings.get(name, "")

    def _file(self, variable: str, name: str) -> configparser.RawConfigParser:
        """What a file has; nothing where it cannot be read."""
        path = os.path.expanduser(self._first(variable) or f"~/.aws/{name}")
        parser = configparser.RawConfigParser(default_section="")
        try:
            parser.read(path, encoding="utf-8")
        except (configparser.Error, UnicodeDecodeError):
            # Whether that matters is known once no key is found: botocore names the line.
            return configparser.RawConfigParser(default_section="")
        return parser

    def _of_profile(self, file: configparser.RawConfigParser) -> Mapping[str, str]:
        section = _section(file, "profile", self._profile)
        if section is None and file.has_section(self._profile):
            section = self._profile
        return {} if section is None else dict(file.items(section))

    def _of_services(self) -> Mapping[str, str]:
        """What the profile's section of services has for S3."""
        name = self._of("services")
        if not name:
            return {}
        section = _section(self._config, "services", name)
        if section is None:
            raise StoreError(
                f"{self._shown}: ~/.aws/config has no section [services {printable(name)}], which "
                f"the profile {printable(self._profile)} names; add it, or name another"
            )
        return _nested(dict(self._config.items(section)), "s3")

    def _static_keys(self) -> AccessKeys | None:
        env = self._environment
        if env.get("AWS_ACCESS_KEY_ID") and env.get("AWS_SECRET_ACCESS_KEY"):
            token = self._first("AWS_SESSION_TOKEN", "AWS_SECURITY_TOKEN")
            return AccessKeys(env["AWS_ACCESS_KEY_ID"], env["AWS_SECRET_ACCESS_KEY"], token)
        names = {*self._credentials_file, *self._config_file}
        is_elsewhere = any(name in _OF_A_ROLE or name.startswith(_SSO) for name in names)
        if is_elsewhere or "AWS_WEB_IDENTITY_TOKEN_FILE" in env or "AWS_ACCESS_KEY_ID" in env:
            return None
        for file in (self._credentials_file, self._config_file):
            key, secret = file.get("aws_access_key_id"), file.get("aws_secret_access_key")
            if key and secret:
                token = file.get("aws_session_token") or file.get("aws_security_token") or ""
                return AccessKeys(key, secret, token)
        return None

    def _keys_of_a_role(self) -> AccessKeys:
        try:
            from botocore import exceptions
            from botocore.session import Session
        except ModuleNotFoundError as error:
            from strongroom.base.parts import missing_library

            raise missing_library(error.name or "botocore") from error
        # Its debugging shows signatures and parts of what is sent.
        for name in ("botocore", "urllib3"):
            logging.getLogger(name).setLevel(logging.WARNING)
        try:
            if self._credentials is None:
                self._credentials = Session().get_credentials()
            if self._credentials is None:
                raise exceptions.NoCredentialsError
            found = self._credentials.get_frozen_credentials()
        except (exceptions.NoCredentialsError, exceptions.PartialCredentialsError):
            raise StoreError(
                f"{self._shown}: no access key was found; set AWS_ACCESS_KEY_ID and "
                "AWS_SECRET_ACCESS_KEY, or write ~/.aws/credentials and name the profile in "
                "AWS_PROFILE"
            ) from None
        except (exceptions.ProfileNotFound, exceptions.ConfigParseError) as error:
            raise StoreError(f"{self._shown}: {printable(str(error))}; see ~/.aws/config") from None
        except exceptions.ClientError as error:
            raise StoreError(
                f"{self._shown}: no access key was given for the role: {printable(str(error), 400)}"
            ) from None
        except exceptions.BotoCoreError as error:
            raise PassingError(f"no access key yet ({type(error).__name__})") from None
        return AccessKeys(found.access_key, found.secret_key, found.token or "")


def _section(file: configparser.RawConfigParser, kind: str, name: str) -> str | None:
    """The heading of a section: the name may be in quotes, and after any space."""
    for heading in file.sections():
        first, *rest = heading.split(None, 1)[:2] or ("",)
        if first == kind and rest and rest[0].strip().strip("\"'") == name:
            return heading
    return None


def _is_true(text: str) -> bool:
    return text.lower() == "true"


def _nested(section: Mapping[str, str], name: str) -> dict[str, str]:
    """Settings below a setting: indented lines after it."""
    lines = [line.partition("=") for line in section.get(name, "").splitlines()]
    return {key.strip(): text.strip() for key, sign, text in lines if sign}
