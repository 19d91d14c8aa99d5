"""CRC-32C, the checksum that Cloud Storage gives for contents, and clients hold what they sent against."""

from __future__ import annotations

import base64
import hashlib

_POLYNOMIAL = 0x82F63B78


def _row(value: int) -> int:
    for _ in range(8):
        value = (value >> 1) ^ _POLYNOMIAL if value & 1 else value >> 1
    return value


_TABLE = tuple(_row(value) for value in range(256))


def crc32c(content: bytes) -> str:
    """As Google writes it: four bytes, the highest first, in base 64."""
    checksum = 0xFFFFFFFF
    for byte in content:
        checksum = _TABLE[(checksum ^ byte) & 0xFF] ^ (checksum >> 8)
    return base64.b64encode((checksum ^ 0xFFFFFFFF).to_bytes(4)).decode()


def md5(content: bytes) -> str:
    """The other one, in base 64."""
    return base64.b64encode(hashlib.md5(content, usedforsecurity=False).digest()).decode()
