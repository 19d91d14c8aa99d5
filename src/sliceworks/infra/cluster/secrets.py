"""Credentials of model registries: read from files of this machine when an environment is applied, and kept nowhere but in the
cluster. No error and no line of progress has a value of theirs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson

from sliceworks.base.errors import InvalidDocument

if TYPE_CHECKING:
    from pathlib import Path

    from sliceworks.specs.environment import Environment


def missing(environment: Environment, folder: Path) -> list[Path]:
    """The files that are not there; names in the document are relative to its folder."""
    service = environment.spec.self_service
    return [folder / each.file for each in (service.model_registries if service else ()) if not (folder / each.file).is_file()]


def read(environment: Environment, folder: Path) -> dict[str, dict[str, str]]:
    """By the Secret's name, the names and values in its file. A file that is not there is passed over."""
    service = environment.spec.self_service
    found = service.model_registries if service else ()
    return {each.secret: _values(folder / each.file) for each in found if (folder / each.file).is_file()}


def _values(file: Path) -> dict[str, str]:
    try:
        data = orjson.loads(file.read_bytes())
    except OSError as error:
        raise InvalidDocument((error.strerror or "cannot be read").lower(), place=str(file)) from error
    except orjson.JSONDecodeError:
        data = None  # the decoder's own words may have a piece of what is secret
    if not isinstance(data, dict) or not data or not all(isinstance(value, str) for value in data.values()):
        raise InvalidDocument("expected a JSON object of names and texts, such as kaggle.json", place=str(file)) from None
    return data
