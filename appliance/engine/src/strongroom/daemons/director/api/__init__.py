"""The director's door: REST, server-sent events, metrics, and the WebSocket that agents dial.

How a request goes, each step a module:

    server, connections   TLS 1.3 on a socket; who the peer's certificate says it is
    callers, tokens       who asks: a certificate or a bearer token, and its Console resource
    rights                what that one may see and do: Console and Profile permissions
    attempts              how often wrong secrets may be tried
    answers, questions    what goes in and out, as OpenAPI describes it
    *_routes              one module a subject; each asks `rights` first, then the director
    failures              errors as `{"error_id": ..., "message": ...}` with the fitting status
    agent_connections     WebSockets of agents: the director's AgentLink
    metrics               figures for Prometheus

Nothing here decides about jobs or touches the catalog: Director does.
"""
