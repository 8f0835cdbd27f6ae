"""The web page of the director: HTML made at the server, with the rights and queries of the API.

The path of a request, each step a module:

    application    headers of every answer, static files, routes; errors as pages
    sessions       who logged in with a token: a cookie that only this process knows
    readers        the caller: a session or a certificate, as the API's ApiRequest
    routes         one module a subject; each calls the API's own handlers, which check rights
    rendering      templates; everything shown passes strongroom.printable and is escaped
    wording        sizes, ages and states in words
    fleet          which clients need somebody, the worst first

The cookie means nothing to the API. A request that changes something, or a stream, needs the header
of api.cross_site here too, so our scripts send all forms that are no searches.
"""
