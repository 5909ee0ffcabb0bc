"""The HTTP server: one model for many clients, with dynamic batching and a web page.

Needs the extra `serve`. The server stores no texts and logs none, not even in errors.
"""

from __future__ import annotations

from importlib.util import find_spec

from unire.errors import UnireError

if any(find_spec(name) is None for name in ("fastapi", "uvicorn", "prometheus_client")):
    raise UnireError('serving needs FastAPI, uvicorn and prometheus-client: pip install "unire[serve]"')
