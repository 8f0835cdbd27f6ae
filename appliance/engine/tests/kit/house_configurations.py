"""The configurations of a house of daemons, to be filled in by `str.format`."""

from __future__ import annotations

STORAGE_TEXT = """
Storage {{ Name = {storage}; Address = 127.0.0.1; Port = {port}
  Maintenance Socket = "{folder}/storage.sock"
  Identity Directory = "{folder}/vault"
  Clients = "*all*"; Minimum Retention = 0
  {further} }}
Director {{ Name = boss; Password = unused; Address = 127.0.0.1; Port = {director_port} }}
Device {{ Name = disk; Media Type = File; Archive Device = "{device}" }}
"""
DIRECTOR_TEXT = """
Director {{ Name = {director}; Password = x; Messages = standard; Address = 127.0.0.1; Port = {port}
  Working Directory = "{folder}/work"
  Identity Directory = "{folder}/boss"
  Authority Directory = "{folder}/ca"
  Appliance Key File = "{folder}/appliance.key"
  Maximum Concurrent Jobs = 20
  {further} }}
Messages {{ Name = standard; Console = all; {messages} }}
Catalog {{ Name = main; {catalog} }}
Storage {{ Name = vault; Address = 127.0.0.1; Port = {link}; Password = x; Device = disk
  Media Type = File; Repository = "unix:{folder}/storage.sock"
  Passphrase File = "{folder}/passphrase"; Maximum Concurrent Jobs = 20 }}
Pool {{ Name = short; Pool Type = Backup; Minimum Retention = 0; {pool} }}
Profile {{ Name = everything; Command ACL = *all*; Job ACL = *all*; Client ACL = *all*
  Storage ACL = *all*; Schedule ACL = *all*; Pool ACL = *all*; FileSet ACL = *all*
  Where ACL = *all* }}
Console {{ Name = admin; Password = x; Profile = everything }}
Console {{ Name = ann; Password = x; Command ACL = *all*; Job ACL = "nightly-web1", Restore
  Client ACL = web1; FileSet ACL = "all-web1"; Pool ACL = short; Storage ACL = vault
  Where ACL = "*all*" }}
JobDefs {{ Name = usual; Type = Backup; Level = Incremental; Messages = standard; Storage = vault
  Pool = short; Maximum Concurrent Jobs = 5; {job_further} }}
"""
OF_CLIENT_TEXT = """
Client {{ Name = {name}; Address = {name}; Password = x; Maximum Concurrent Jobs = 5
  {further} }}
FileSet {{ Name = all-{name}; Include {{ File = "{source}" }} }}
Job {{ Name = nightly-{name}; Job Defs = usual; Client = {name}; FileSet = all-{name} }}
Job {{ Name = housekeeping-{name}; Type = Admin; Client = {name}; FileSet = all-{name}
  Messages = standard; Storage = vault; Pool = short
  RunScript {{ RunsWhen = Before; RunsOnClient = no; Console = "vouch"; Console = "prune" }} }}
"""
AGENT_TEXT = """
Client {{ Name = {name}; Identity Directory = "{folder}/identity"
  Working Directory = "{folder}/working"; Scripts Directory = "{folder}/scripts"
  Maximum Workers = 1; {further} }}
Director {{ Name = {director}; Password = unused; Address = 127.0.0.1; Port = {port}
  Reconnection Time = 1 }}
"""
