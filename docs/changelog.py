"""The changelog: fragments in `changes/` become the section of a version, and a section becomes the notes of a release.

python docs/changelog.py release VERSION [--date DATE]   move fragments and "Unreleased" to a section of the version
python docs/changelog.py notes VERSION [--registry R]    print that section, or what it would contain, and where the images are
python docs/changelog.py check VERSION                   fail unless the section exists and no fragment is left
"""

from __future__ import annotations

import argparse
import re
import sys
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parents[1]
_UNRELEASED = "Unreleased"
_SECTION = re.compile(r"^## (.+)\n", re.MULTILINE)
_ENTRY = re.compile(r"^(?=- )", re.MULTILINE)
_AREA = re.compile(r"- \*\*([\w ]+)")
AREAS = (
    "Compatibility",
    "Installation",
    "Documents",
    "Environments",
    "Queues",
    "Training",
    "Slices",
    "Graphs",
    "Models",
    "Gateway",
    "Load tests",
    "Rehearsals",
    "Console",
    "Twin",
)
"""What the entries of fragments begin with, in the order in which they are printed."""


def fragments(root: Path) -> list[Path]:
    """The fragments, in the order of their names."""
    return sorted(path for path in (root / "changes").glob("*.md") if path.name != "README.md")


def sections(text: str) -> dict[str, str]:
    """The sections of a changelog by title, such as `Unreleased` or `0.2.0 - 2026-11-18`."""
    parts = _SECTION.split(text)
    return dict(zip(parts[1::2], (part.strip("\n") for part in parts[2::2]), strict=True))


def section_of(text: str, version: str) -> str | None:
    """The section of a version; None if it has none."""
    return next((body for title, body in sections(text).items() if title.split(" ")[0] == version), None)


def unreleased(root: Path) -> str:
    """What the next release contains: the section "Unreleased", then the entries of the fragments by area."""
    text = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    entries = [entry for path in fragments(root) for entry in _ENTRY.split(path.read_text(encoding="utf-8").strip("\n") + "\n")]
    parts = [sections(text).get(_UNRELEASED, ""), "".join(sorted(entries, key=area)).strip("\n")]
    return "\n".join(part for part in parts if part)


def area(entry: str) -> int:
    """The position of an entry's area; others are last."""
    match = _AREA.match(entry)
    return AREAS.index(match[1]) if match and match[1] in AREAS else len(AREAS)


def release(root: Path, version: str, date: str) -> None:
    """Move what is unreleased to a section of the version, and delete the fragments."""
    file = root / "CHANGELOG.md"
    text = file.read_text(encoding="utf-8")
    if section_of(text, version) is not None:
        sys.exit(f"CHANGELOG.md: has a section of version {version} already")
    if not (content := unreleased(root)):
        sys.exit(f"CHANGELOG.md: nothing is unreleased, so version {version} would have no section")
    head, _, rest = text.partition(f"## {_UNRELEASED}\n")
    older = "".join(f"\n## {title}\n\n{body}\n" for title, body in sections(rest).items())
    file.write_text(f"{head}## {_UNRELEASED}\n\n## {version} - {date}\n\n{content}\n{older}", encoding="utf-8")
    for path in fragments(root):
        path.unlink()


def notes(root: Path, version: str) -> str:
    """The notes of a release."""
    result = section_of((root / "CHANGELOG.md").read_text(encoding="utf-8"), version)
    return unreleased(root) if result is None else result


def published(version: str, registry: str) -> str:
    """How to install a release, and where its images and its chart are."""
    images = ", ".join(f"`{registry}/{name}:{version}`" for name in ("controllers", "gateway", "load-worker"))
    wheel = f"sliceworks-{version}-py3-none-any.whl"
    lines = [
        f'- Command: download the wheel below, then `pipx install "./{wheel}[all]"`, or the same with `uv tool install`.',
        f"- Images, signed, with SBOM and provenance: {images}. Set `image.registry: {registry}`.",
        f"- Chart: `oci://{registry}/charts/sliceworks`, version {version}, or the file `sliceworks-{version}.tgz`.",
        "- Without Helm: `install.yaml`, and `install-gateway.yaml` for a gateway.",
        "",
        f'The page "Install in a cluster" in `documentation-{version}.tar.gz` has all steps, and how to verify the signatures.',
    ]
    return "\n".join(["", "## Install", "", *lines])


def check(root: Path, version: str) -> None:
    """Exit with a message unless the changelog is complete for a version."""
    if section_of((root / "CHANGELOG.md").read_text(encoding="utf-8"), version) is None:
        sys.exit(f"CHANGELOG.md: has no section of version {version}; run `make changelog`")
    if left := fragments(root):
        sys.exit(f"{', '.join(str(path.relative_to(root)) for path in left)}: not in the changelog; run `make changelog`")


def main() -> None:
    """Run one of the commands above."""
    parser = argparse.ArgumentParser(description="Collect and print the changelog.")
    parser.add_argument("command", choices=["release", "notes", "check"])
    parser.add_argument("version")
    parser.add_argument("--date", default=f"{datetime.now(UTC):%Y-%m-%d}")
    parser.add_argument("--registry")
    parser.add_argument("--root", type=Path, default=ROOT)
    options = parser.parse_args()
    if options.command == "release":
        release(options.root, options.version, options.date)
    elif options.command == "notes":
        print(notes(options.root, options.version))
        if options.registry:
            print(published(options.version, options.registry))
    else:
        check(options.root, options.version)


if __name__ == "__main__":
    main()
