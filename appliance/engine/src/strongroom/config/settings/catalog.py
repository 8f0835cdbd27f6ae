"""Catalog resources: the database."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from strongroom.config.values.forms import Password

if TYPE_CHECKING:
    from strongroom.config.model import Resource


@dataclass(frozen=True, slots=True)
class CatalogSettings:
    """A database; "" and None where nothing is said. With an address or a socket: PostgreSQL."""

    name: str
    db_name: str
    db_user: str
    db_address: str
    db_port: int | None
    db_socket: str
    db_password: str = field(repr=False)
    password_file: str

    @classmethod
    def of(cls, catalog: Resource) -> CatalogSettings:
        """Those of a Catalog resource."""
        password = catalog.value("db_password")
        clear = password.clear if isinstance(password, Password) else None
        return cls(
            name=catalog.name,
            db_name=catalog.text("db_name"),
            db_user=catalog.text("db_user"),
            db_address=catalog.text("db_address"),
            db_port=catalog.optional_number("db_port"),
            db_socket=catalog.text("db_socket"),
            db_password=clear or "",
            password_file=catalog.text("password_file"),
        )
