"""The director's API: REST, server-sent events, metrics, and the WebSockets of agents.

The path of a request, each step a module:

    server, tls_stream    TLS 1.3 on the port that agents and requests share
    connection_limits     how many connections; the name in a peer's certificate
    http_forwarding       requests forwarded to uvicorn, and its answers
    request_origin        which connection a request came on
    request_limits        limits on the size and time of a body
    callers               authentication: a certificate or a bearer token, and its Console resource
    rights                authorization: permissions (ACL) of Console and Profile resources
    failed_attempts       rate limits for wrong secrets
    models                request and response bodies, as OpenAPI describes them
    routes                one module a subject; each checks `rights` first, then calls the service
    error_responses       errors as `{"error_id": ..., "message": ...}` with the fitting status

The path of an agent's connection:

    server, tls_stream    the same port; agent_dialling where the director dials
    agent_sockets         its WebSocket
    agent_connections     the connected agents: the service's AgentLink

Nothing here decides about jobs or uses the catalog: Director does.
"""
