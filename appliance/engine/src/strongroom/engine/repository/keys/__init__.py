"""The keys of a repository: who may add, who may read, and how they are stored.

- The *restore key* is an X25519 private key and the repository's secret: it reads everything.
- The *appliance key* is the secret without the private key. It makes the put keys of clients and
  signs what all of them rely on; it reads no content and no file names.
- The *put key* of a client adds and deduplicates in that client's name, and reads what is its own:
  indexes and snapshot envelopes, but no content and no file names, and nothing of other clients.
- A *ticket key* is a put key with the keys of some packs, for a restore limited to those packs.

    owners       the keys of what belongs to one client, or to all; how keys follow from secrets
    roles        the four keys
    wrapping     the restore key under a passphrase, as the repository stores it
    files        keys as text
"""
