"""The program that Terraform starts; or, told so, one that somebody else starts for Terraform."""

from __future__ import annotations

import asyncio
import sys

from sliceworks.infra.standin import ATTACHED
from sliceworks.infra.standin.plugin import serve, serve_attached
from sliceworks.infra.standin.provider import Provider

if __name__ == "__main__":
    way = serve_attached if sys.argv[1:] == [ATTACHED] else serve
    sys.exit(asyncio.run(way(Provider().handlers())))
