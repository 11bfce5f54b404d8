"""serve — the HTTP server: decisions, signals, policies and evidence over /v1.

    from headway.serve.run import serve
    serve(Path("."), port=0)

Takes: HTTP requests.   Gives: JSON, server-sent events, one error shape.
Never: trains, holds a language model, takes a path or a propensity from a client, connects to others by itself.
May import: files, nouns, client, observe, promote, settings, project.
"""

from typing import TYPE_CHECKING

from headway.nouns import door

if TYPE_CHECKING:
    from headway.serve.address import Address as Address
    from headway.serve.endpoints import (
        Call as Call,
        Reply as Reply,
        Stream as Stream,
        endpoint as endpoint,
        strict as strict,
    )
    from headway.serve.errors import ErrorDetail as ErrorDetail, problem as problem
    from headway.serve.kit_routes import kit_problems as kit_problems
    from headway.serve.run import serve as serve
    from headway.serve.wire import (
        Candidates as Candidates,
        State as State,
        Text as Text,
        described as described,
        matching as matching,
    )
    from headway.serve.workers import Workers as Workers, server_settings as server_settings
else:
    __all__, __getattr__ = door(__name__)
