"""The director's API: REST, server-sent events, metrics, and the WebSockets of agents.

The path of a request, each step a module:

    server, tls_stream    TLS 1.3 on the port that agents and requests share
    http_connection       uvicorn's protocol on that connection; gives requests the certificate
    application           the routes; errors as `{"error_id": ..., "message": ...}`
    limits                how many connections, failed attempts and bytes of a body
    callers               authentication: a certificate or a bearer token, and its Console resource
    rights                authorization: permissions (ACL) of Console and Profile resources
    request_context       the caller of a request, and what it may see
    status, runs, snapshots, administration, enrolment
                          one a subject; each checks `rights` first, then calls the service
    bodies                request and response bodies, as OpenAPI describes them

The path of an agent's connection:

    server, tls_stream    the same port; agent_dialling where the director dials
    agent_sockets         its WebSocket
    agent_connections     the connected agents: the service's AgentLink

Nothing here decides about jobs or uses the catalog: Director does.
"""
