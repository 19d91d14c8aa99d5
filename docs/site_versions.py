"""Adds a built documentation site to a folder with one site per version, which any web server can serve.

    python docs/site_versions.py SITE FOLDER VERSION

FOLDER gets the site as VERSION/, `versions.json` for the version selector of the pages, and redirects from / and /latest/ to the
newest version that is not a pre-release.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
from pathlib import Path

_REDIRECT = """<!doctype html>
<meta charset="utf-8">
<title>Sliceworks</title>
<link rel="canonical" href="{target}">
<meta http-equiv="refresh" content="0; url={target}">
<a href="{target}">Sliceworks {version}</a>
"""


def sort_key(version: str) -> tuple[list[int], bool, list[tuple[bool, int, str]]]:
    """Orders versions as Semantic Versioning does: a pre-release comes before its release."""
    core, _, pre = version.partition("-")
    parts = [(not part.isdigit(), int(part) if part.isdigit() else 0, part) for part in pre.split(".")] if pre else []
    return [int(number) for number in core.split(".")], not pre, parts


def add_version(site: Path, folder: Path, version: str) -> None:
    """Add a site, or replace the one of the same version."""
    target = folder / version
    if target.exists():
        shutil.rmtree(target)
    shutil.copytree(site, target)
    versions = sorted(
        (path.parent.name for path in folder.glob("*/index.html") if re.match(r"\d", path.parent.name)), key=sort_key, reverse=True
    )
    latest = next((name for name in versions if "-" not in name), versions[0])
    entries = [{"version": name, "title": name, "aliases": ["latest"] if name == latest else []} for name in versions]
    (folder / "versions.json").write_text(json.dumps(entries, indent=2) + "\n", encoding="utf-8")
    (folder / "latest").mkdir(exist_ok=True)
    for file, prefix in ((folder / "index.html", ""), (folder / "latest" / "index.html", "../")):
        file.write_text(_REDIRECT.format(target=f"{prefix}{latest}/index.html", version=latest), encoding="utf-8")
    (folder / ".nojekyll").touch()  # GitHub Pages serves files whose names begin with an underscore


def main() -> None:
    """Read the arguments."""
    parser = argparse.ArgumentParser(description="Add a built site to a folder of versions.")
    parser.add_argument("site", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("version")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    add_version(options.site, options.folder, options.version)


if __name__ == "__main__":
    main()
