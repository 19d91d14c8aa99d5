"""The program that Terraform starts."""

from __future__ import annotations

import asyncio
import sys

from sliceworks.infra.standin.plugin import serve
from sliceworks.infra.standin.provider import Provider

if __name__ == "__main__":
    sys.exit(asyncio.run(serve(Provider().handlers())))
