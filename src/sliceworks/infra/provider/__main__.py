"""The provider program: started by Terraform, or with `REATTACH` by this package."""

from __future__ import annotations

import asyncio
import sys

from sliceworks.infra.provider import REATTACH
from sliceworks.infra.provider.grpc_provider import Provider
from sliceworks.infra.provider.plugin import serve, serve_attached

if __name__ == "__main__":
    run = serve_attached if sys.argv[1:] == [REATTACH] else serve
    sys.exit(asyncio.run(run(Provider().handlers())))
