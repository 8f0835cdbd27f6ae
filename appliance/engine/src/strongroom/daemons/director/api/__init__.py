"""The director's API: REST, server-sent events, metrics, and the WebSockets of agents.

How a request goes, each step a module:

    server, tls_stream    TLS 1.3 on the port that agents and requests share
    connection_limits     how many connections; whom a peer's certificate names
    http_forwarding       requests passed on to uvicorn, and answers passed back
    request_origin        which connection a request came on
    request_limits        how large and how slow a body may be
    callers               who asks: a certificate or a bearer token, and its Console resource
    rights                what that one may see and do: Console and Profile permissions
    failed_attempts       how often wrong secrets may be tried
    models                what goes in and out, as OpenAPI describes it
    routes                one module a subject; each asks `rights` first, then the service
    error_responses       errors as `{"error_id": ..., "message": ...}` with the fitting status

How an agent's connection goes:

    server, tls_stream    the same port; agent_dialling makes the connection where we dial
    agent_sockets         its WebSocket
    agent_connections     who is connected: the service's AgentLink

Nothing here decides about jobs or touches the catalog: Director does.
"""
