"""The model classes that each release of Sax contains: parameters, chips and releases. Pure."""

from __future__ import annotations

from typing import NamedTuple

Release = tuple[int, int]
DEFAULT_MODULE = "saxml.server.pax.lm.params.lm_cloud"
_PARAMS = "saxml.server.pax.lm.params"


class SaxClass(NamedTuple):
    """A model class of Sax: billions of parameters, bytes per parameter, required chips; 0 if unknown.

    It is in the releases from `since` until, but not including, `until`.
    """

    billions: float = 0
    bytes: float = 0
    chips: int = 0
    since: Release = (1, 0)
    until: Release | None = None

    def is_in(self, release: Release) -> bool:
        """Whether a release contains it."""
        return self.since <= release and (self.until is None or release < self.until)


_V1_1, _V1_2 = (1, 1), (1, 2)
_UNRELEASED = (1, 3)
"""In Sax's sources after 1.2, and in no release yet."""
SAX_CLASSES = {
    "LLaMA7BFP16": SaxClass(6.74, 2, 1),
    "LLaMA7BFP16TPUv4": SaxClass(6.74, 2, 4),
    "LLaMA7BFP16TPUv5e": SaxClass(6.74, 2, 4, _V1_1),
    "LLaMA7B": SaxClass(6.74, 2, 1, until=_V1_2),
    "LLaMA7BTPUv5e4": SaxClass(6.74, 2, 4, _V1_2),
    "LLaMA7BTPUv5e8": SaxClass(6.74, 2, 8, _UNRELEASED),
    "LLaMA7BTPUv5e16": SaxClass(6.74, 2, 16, _UNRELEASED),
    "LLaMA7BContinuousBatchingTPUv5e4": SaxClass(6.74, 2, 4, _V1_2),
    "LLaMA7BContinuousBatchingTPUv5e8": SaxClass(6.74, 2, 8, _UNRELEASED),
    "LLaMA13B": SaxClass(13.02, 1, 1),
    "LLaMA33B": SaxClass(32.5, 1, 4),
    "LLaMA65B": SaxClass(65.2, 1, 4),
    "LLaMA70BFP16TPUv5e": SaxClass(68.98, 2, 16, _V1_1),
    "LLaMA70BFP16TPUv5e16": SaxClass(68.98, 2, 16, _UNRELEASED),
    "LLaMA70BFP16TPUv5e32": SaxClass(68.98, 2, 32, _V1_1),
    "LLaMA70BFP16TPUv5e64": SaxClass(68.98, 2, 64, _V1_1),
    "LLaMA70BInt8TPUv5e8": SaxClass(68.98, 1, 8, _V1_2),
    "LLaMA70BInt8TPUv5e8Exp": SaxClass(since=_V1_2, until=_UNRELEASED),
    "LLaMA70BINT8LinearOnlyx8": SaxClass(since=_V1_2, until=_UNRELEASED),
    **dict.fromkeys((f"LmCloudSpmd2B{suffix}" for suffix in ("", "Test", "4Test", "8Test", "16Test", "32Test")), SaxClass()),
    **dict.fromkeys((f"LmCloudSpmd175B{suffix}" for suffix in ("", "Test", "32Test", "64Test", "128Test", "256Test")), SaxClass()),
    f"{_PARAMS}.c4.C4SpmdGpt3AdamOrgHP": SaxClass(),
    f"{_PARAMS}.gptj.GPTJ": SaxClass(),
    f"{_PARAMS}.gptj.GPTJ4BF16BS32": SaxClass(since=_V1_1),
    f"{_PARAMS}.gptj.GPTJ4TokenizedBF16BS32": SaxClass(),
    **{
        f"{_PARAMS}.gemma.Gemma{name}": SaxClass(since=_V1_2)
        for name in (
            *("2BFP16", "2BFP16Exp", "2BFP16With4Replicas", "2BFP16With8Replicas", "2BFP16Test"),
            *("7BFP16", "7BFP16Exp", "7BFP16With2Replicas", "7BFP16Test"),
            *("2BInt8", "2BInt8With8Replicas", "2BInt8Test", "7BInt8", "7BInt8With2Replicas", "7BInt8Test"),
        )
    },
}
"""The published language models of Sax; those without a module are in `DEFAULT_MODULE`. Each requires exactly its chips."""


def find_sax_class(name: str) -> SaxClass | None:
    """The published class with this name, with its module or, in the default one, without."""
    return SAX_CLASSES.get(name.removeprefix(f"{DEFAULT_MODULE}."))
