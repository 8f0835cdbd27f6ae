"""The reader of a page: who has a session, else who shows a certificate; with the API's rights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from fastapi import Depends, Request

from strongroom.daemons.director.api.request_context import ApiContext, ApiRequest, address_of
from strongroom.daemons.director.web.sessions import COOKIE, Sessions

if TYPE_CHECKING:
    from strongroom.daemons.director.api.callers import Caller


async def _reader(request: Request) -> ApiRequest:
    context: ApiContext = request.app.state.context
    sessions: Sessions = request.app.state.sessions
    cookie = request.cookies.get(COOKIE, "")
    state, address = request.scope["state"], address_of(request)

    async def identify(*, is_known: bool = True) -> Caller:
        if cookie:
            # Whoever logged in wants to be that one, also with a certificate of more rights.
            return await context.callers.of_session(sessions.token_id(cookie, address), address)
        return await context.callers.identify(state, address, "", is_known=is_known)

    caller = await identify(is_known=False)
    # For the audit log, if this request is denied.
    request.state.caller = caller
    return ApiRequest(context, caller, identify)


Reader = Annotated[ApiRequest, Depends(_reader)]
