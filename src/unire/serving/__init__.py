"""Serving: one model behind an address, for many callers at once, and a page to try it on.

Needs the extra `serve`. What callers send is computed and forgotten: no text is logged, not even where something fails.
"""

from __future__ import annotations

from importlib.util import find_spec

from unire.errors import UnireError

if any(find_spec(name) is None for name in ("fastapi", "uvicorn", "prometheus_client")):
    raise UnireError('serving needs FastAPI, uvicorn and prometheus-client: pip install "unire[serve]"')
