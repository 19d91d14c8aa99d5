"""The version in the tree: of the package and the chart, in labels, and in the tags of our images in manifests, examples and pages.

python docs/set_version.py VERSION   write a version
python docs/set_version.py           print each place
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

_ROOT = Path(__file__).parents[1]
# Valid for Python packages and for Helm charts, which write pre-releases differently.
_VERSION = r"[0-9]+\.[0-9]+\.[0-9]+"
_TAGS = r"newTag: |/(?:controllers|gateway|load-worker|converter):"
_LABELS = r'image\.version=|app\.kubernetes\.io/version"?: "|^(?:appV|v)ersion: '
_PLACES = re.compile(rf'(__version__ = "|\bVERSION=|{_LABELS}|{_TAGS}){_VERSION}', re.MULTILINE)
_FILES = ("src/sliceworks/__init__.py", "deploy", "examples", "docs/*.md", "tests/*/goldens/*")


def places(root: Path) -> dict[Path, list[str]]:
    """What contains the version, by file."""
    listed = subprocess.run(["git", "ls-files", "-z", *_FILES], cwd=root, capture_output=True, text=True, check=True).stdout
    files = [root / name for name in listed.split("\0") if name]
    found = {file: [match[0] for match in _PLACES.finditer(file.read_text(encoding="utf-8"))] for file in files}
    return {file: matches for file, matches in found.items() if matches}


def set_version(version: str, root: Path) -> None:
    """Write the version."""
    for file in places(root):
        file.write_text(_PLACES.sub(rf"\g<1>{version}", file.read_text(encoding="utf-8")), encoding="utf-8")


def main() -> None:
    """Write or print."""
    parser = argparse.ArgumentParser(description="Write or print the version.")
    parser.add_argument("version", nargs="?", metavar="VERSION")
    parser.add_argument("--root", type=Path, default=_ROOT)
    options = parser.parse_args()
    if options.version is None:
        for file, matches in places(options.root).items():
            print(*(f"{file.relative_to(options.root)}: {match}" for match in matches), sep="\n")
    elif re.fullmatch(_VERSION, options.version):
        set_version(options.version, options.root)
    else:
        sys.exit(f"VERSION: must have three numbers, such as 0.2.0, got {options.version!r}")


if __name__ == "__main__":
    main()
