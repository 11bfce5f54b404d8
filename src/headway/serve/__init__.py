"""serve — the HTTP server: decisions, signals, policies and evidence over /v1.

    from headway.serve.run import serve
    serve(Path("."), port=0)

Takes: HTTP requests.   Gives: JSON, server-sent events, one error shape.
Never: trains, holds a language model, takes a path or a propensity from a client, connects to others by itself.
May import: files, nouns, client, observe, promote, settings, project.
"""
