"""`fedfleet token`: invite devices to a served run, and put them out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedfleet.app.terminal.answers import AsJson, answer, say
from fedfleet.core.limits import MAX_CLIENTS

Client = Annotated[
    int | None,
    typer.Option(
        min=0, max=MAX_CLIENTS - 1, help="For this client only; it takes the place over if another device has it."
    ),
]


def token(
    folder: Annotated[
        Path, typer.Argument(metavar="RUN", help="The folder of a served run; the server may be running.")
    ],
    uses: Annotated[int | None, typer.Option(min=1, max=MAX_CLIENTS, help="For how many devices; default: 1.")] = None,
    hours: Annotated[
        float | None, typer.Option(min=0.001, max=100_000, help="For how long it is good; default: 24 hours.")
    ] = None,
    client: Client = None,
    note: Annotated[str, typer.Option(help="A remark for the list, such as whom it is for.")] = "",
    show: Annotated[bool, typer.Option("--list", help="Show tokens (not what they say) and devices.")] = False,
    revoke: Annotated[
        str | None, typer.Option(metavar="ID", help="End a token; devices that it has enrolled stay.")
    ] = None,
    revoke_client: Annotated[
        int | None, typer.Option(min=0, metavar="CLIENT", help="Put a device out: its secret holds no more.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make a token with which a device may enrol, and print it once; or list and revoke tokens and devices."""
    from fedfleet.app.runs.invitations import check_one_request, end_enrolment, end_token, invite, list_tokens
    from fedfleet.app.terminal.invitation_text import invitation_text, token_list_text

    new_token_options = {"--uses": uses, "--hours": hours, "--client": client, "--note": note or None}
    check_one_request(new_token_options, {"--list": show or None, "--revoke": revoke, "--revoke-client": revoke_client})
    if show:
        answer(list_tokens(folder), as_json, token_list_text)
    elif revoke is not None:
        answer(end_token(folder, revoke), as_json, lambda a: f"token {a['id']} is revoked")
    elif revoke_client is not None:
        answer(end_enrolment(folder, revoke_client), as_json, lambda a: f"client {a['client']} is put out")
    else:
        invitation = invite(folder, uses or 1, 24.0 if hours is None else hours, client, note)
        answer(invitation, as_json, lambda a: a["token"])
        say(invitation_text(invitation))
