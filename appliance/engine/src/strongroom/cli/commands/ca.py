"""`strongroom ca`: the certificate authority of daemons and agents.

No secret appears on a command line: keys are written to files that only their owner may read, an
enrolment token to a new file (or to standard output with `-`), and the passphrase of the
authority's key is given as any other passphrase (--password-file and so on).
"""

from __future__ import annotations

import argparse

from strongroom.cli.authority import (
    issue_certificate,
    list_issued,
    make_authority,
    make_token,
    permit_renewal,
    revoke_name,
)
from strongroom.cli.options import REPEATED, exact_seconds, moment
from strongroom.net.identities.peer import ROLES

EPILOG = """\
examples:
  strongroom ca init --name "backup of the office" --owner strongroom-director
  strongroom ca issue vault-dir --role director --host vault.example.org \\
      --folder /var/lib/strongroom/director/identity --owner strongroom-director
  strongroom ca issue web1 --role agent --request web1.csr --out web1.pem
  strongroom ca token web1 --out web1.token               then on web1: strongroom agent enrol
  strongroom ca token --any-name --lifetime 15min --out -   for any new client
  strongroom ca token --group servers --names 'web*' --uses 100 --lifetime 7d --out web.token
                                       for 100 new clients, then on each: strongroom agent join
  strongroom ca token web1 --new-client --out web1.token    after a compromise of web1
  strongroom ca list
  strongroom ca revoke web1                               open connections end within seconds
  strongroom ca renew web1                                then on web1: strongroom agent renew
"""

DEFAULT_FOLDER = "/var/lib/strongroom/ca"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the actions."""
    actions = parser.add_subparsers(title="actions", required=True, metavar="ACTION")
    making = actions.add_parser("init", help="make an authority; done once")
    making.add_argument("--name", default="Strongroom", metavar="TEXT", help="its name")
    making.add_argument(
        "--encrypt-key",
        action="store_true",
        help="encrypt its key with a passphrase (--password-file and so on, else asked for), which "
        "the director needs too, to renew certificates",
    )
    making.add_argument(
        "--owner", metavar="USER", help="the owner of its folder: the director's user"
    )
    making.set_defaults(run=make_authority)
    issuing = actions.add_parser("issue", help="issue a certificate")
    issuing.add_argument("name", metavar="NAME", help="the client's or daemon's name")
    issuing.add_argument("--role", required=True, choices=ROLES, help="what it may act as")
    _add_host_option(issuing)
    issuing.add_argument(
        "--appliance-key",
        **REPEATED,
        metavar="FILE",
        help="of an agent: the appliance key of a repository in which it is the client of this name"
        "; may be repeated",
    )
    issuing.add_argument(
        "--generation",
        type=int,
        default=0,
        metavar="NUMBER",
        help="of an agent: how often the name became a new client (default 0)",
    )
    issuing.add_argument("--days", type=float, metavar="NUMBER", help="how long it is valid")
    issuing.add_argument(
        "--folder", metavar="FOLDER", help="make a whole identity with a new key in FOLDER"
    )
    issuing.add_argument("--owner", metavar="USER", help="the owner of FOLDER")
    issuing.add_argument(
        "--request", metavar="FILE", help="issue for the key of a request (PEM) made elsewhere"
    )
    issuing.add_argument(
        "--out", metavar="FILE", help="write the certificate to FILE, else print it"
    )
    issuing.set_defaults(run=issue_certificate)
    revoking = actions.add_parser(
        "revoke", help="revoke the certificates of a name; takes effect at once"
    )
    revoking.add_argument("name", metavar="NAME", help="of a client, a daemon or an operator")
    revoking.add_argument(
        "--issued-before",
        metavar="TIME",
        type=moment,
        help="only certificates issued before, such as 2026-11-01, or 2h ago: 2h",
    )
    revoking.set_defaults(run=revoke_name)
    renewing = actions.add_parser(
        "renew", help="let the holder of a certificate renew it now, before it is due, once"
    )
    renewing.add_argument("name", metavar="NAME", help="of a client, a daemon or an operator")
    renewing.set_defaults(run=permit_renewal)
    listing = actions.add_parser("list", help="list certificates and unused enrolment tokens")
    listing.add_argument("--all", action="store_true", help="expired and revoked ones as well")
    listing.set_defaults(run=list_issued, lists=True)
    _add_token_action(actions.add_parser("token", help="make an enrolment token"))
    for action in (making, issuing, revoking, renewing, listing, actions.choices["token"]):
        action.add_argument(
            "--ca", metavar="FOLDER", default=DEFAULT_FOLDER, help=f"default {DEFAULT_FOLDER}"
        )


def _add_token_action(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME", help="the only name it is valid for")
    parser.add_argument(
        "--any-name", action="store_true", help="valid for any name that is not taken yet"
    )
    parser.add_argument(
        "--names",
        metavar="PATTERN",
        help="valid for names that are not taken yet and match, such as 'web*'",
    )
    parser.add_argument(
        "--uses", type=int, default=1, metavar="NUMBER", help="for how many names (default 1)"
    )
    parser.add_argument(
        "--group",
        metavar="NAME",
        help="a Client Group that JobDefs of the director name: clients that join get its jobs",
    )
    parser.add_argument("--role", default="agent", choices=ROLES, help="default agent")
    _add_host_option(parser)
    parser.add_argument(
        "--new-client",
        action="store_true",
        help="after a compromise: the name is another client from then on, with other keys, and "
        "its certificates before are revoked; else enrolling again gives the same client",
    )
    parser.add_argument(
        "--lifetime", default="1h", metavar="TIME", type=exact_seconds, help="default 1h"
    )
    parser.add_argument(
        "--out", metavar="FILE", help="write it to the new file FILE; `-` prints it"
    )
    parser.add_argument("--withdraw", metavar="ID", help="withdraw an unused token instead")
    parser.set_defaults(run=make_token)


def _add_host_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--host",
        **REPEATED,
        metavar="NAME",
        help="a DNS name or address under which it is reached; may be repeated",
    )
