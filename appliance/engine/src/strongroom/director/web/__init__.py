"""The web page of the director: HTML made at the server, with the rights and queries of the API.

The path of a request, each step a module:

    application    headers of every answer, static files, routes; errors as pages
    sessions       the caller, as the API's ApiRequest: who logged in with a token, or a certificate
    overview, clients, runs, snapshots, restore, administration
                   one a subject; each calls the API's own handlers, which check rights
    rendering      templates; everything shown passes strongroom.base.printable and is escaped;
                   sizes, ages and states in words

The cookie means nothing to the API. A request that changes something, or a stream, needs the header
of http.cross_site here too, so our scripts send all forms that are no searches.
"""
