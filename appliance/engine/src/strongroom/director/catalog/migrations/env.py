"""Alembic's entry: run migrations on the connection that `database` hands over."""

from alembic import context

from strongroom.director.catalog.tables import METADATA

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=METADATA,
    render_as_batch=True,
    # `database` holds the transaction, so a migration happens wholly or not at all.
    transaction_per_migration=False,
)
context.run_migrations()
