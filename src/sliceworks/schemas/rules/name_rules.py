"""The rules of `base.names` that every object needs many times over, remembered: the same keys and names come again and again."""

from __future__ import annotations

from functools import lru_cache

from sliceworks.base import names

_REMEMBERED = 16384

qualified_name_errors = lru_cache(_REMEMBERED)(names.qualified_name_errors)
label_value_errors = lru_cache(_REMEMBERED)(names.label_value_errors)
dns1123_label_errors = lru_cache(_REMEMBERED)(names.dns1123_label_errors)
dns1123_subdomain_errors = lru_cache(_REMEMBERED)(names.dns1123_subdomain_errors)
