"""Generates the CustomResourceDefinition of a definition's schema block, with kro's plural names."""

from __future__ import annotations

import copy
from functools import cache
from typing import TYPE_CHECKING

from sliceworks.schemas import Schema, build
from sliceworks.schemas.builtins import OBJECT_META, builtin_scheme

if TYPE_CHECKING:
    from sliceworks.graph.model import Object, SchemaBlock


# Irregular plurals. They also apply to compound words that end with them, unless marked with =.
_IRREGULAR = """
aircraft:aircraft beef:beef bison:bison blues:blues chassis:chassis deer:deer fish:fish moose:moose police:police salmon:salmon
series:series sheep:sheep shrimp:shrimp species:species swine:swine trout:trout tuna:tuna you:you child:children =ox:oxen
foot:feet goose:geese man:men human:humans =louse:lice mouse:mice tooth:teeth woman:women =die:dice person:people adieu:adieux
fabliau:fabliaux bureau:bureaus criterion:criteria ganglion:ganglia lexicon:lexica mitochondrion:mitochondria noumenon:noumena
phenomenon:phenomena taxon:taxa media:media medium:media stadium:stadiums aquarium:aquaria auditorium:auditoria
symposium:symposia curriculum:curriculums quota:quotas alumnus:alumni bacillus:bacilli cactus:cacti coccus:cocci focus:foci
locus:loci nucleus:nuclei octopus:octupuses radius:radii syllabus:syllabi corpus:corpora genus:genera alumna:alumnae
vertebra:vertebrae differentia:differentiae minutia:minutiae vita:vitae larva:larvae postcava:postcavae praecava:praecavae
uva:uvae apex:apices codex:codices index:indices latex:latices vertex:vertices vortex:vortices appendix:appendices radix:radices
helix:helices =axis:axes crisis:crises ellipsis:ellipses genesis:geneses oasis:oases thesis:theses testis:testes base:bases
basis:bases =alias:aliases vedalia:vedalias =use:uses abuse:abuses cause:causes clause:clauses cruse:cruses excuse:excuses
fuse:fuses house:houses misuse:misuses muse:muses pause:pauses ache:aches topaz:topazes buffalo:buffaloes potato:potatoes
tomato:tomatoes equipment:equipment information:information jeans:jeans money:money news:news rice:rice dwarf:dwarfs hoof:hoofs
thief:thieves chive:chives hive:hives move:moves movie:movies cookie:cookies pretorium:pretoriums agenda:agendas
formula:formulas shoe:shoes =toe:toes graffiti:graffiti =ssh:sshs =eia:eias =tia:tias
"""
# Alternative plurals of the same words, which are left unchanged.
_OTHER_PLURALS = """
beefs fishes salmons shrimps swines trouts tunas adieus bureaux ganglions lexicons mitochondrions stadia aquariums auditoriums
symposiums curricula alumnuses cactuses focuses locuses nucleuses octopi radiuses corpuses apexes codexes indexes latexes
vertexes vortexes appendixes radixes helixes buffalos dwarves hooves formulae
"""
_NO_PLURAL_OF = frozenset({"blues", "medium", "ellipsis", "basis"})
_ENDINGS = """
tive:tives eaf:eaves oaf:oaves afe:aves arf:arves rfe:rves rf:rves lf:lves fe:ves ay:ays ey:eys oy:oys quy:quies uy:uys y:ies
eau:eaux bula:bulae dula:bulae lula:bulae nula:bulae vula:bulae hedron:hedra ium:ia seum:seums eum:ea oum:oa stracum:straca
dum:da elum:ela ilum:ila olum:ola ulum:ula llum:lla ylum:yla imum:ima ernum:erna gnum:gna brum:bra crum:cra terum:tera
serum:sera trum:tra antum:anta atum:ata entum:enta etum:eta itum:ita otum:ota utum:uta ctum:cta ovum:ova trix:trices iasis:iases
mesis:meses kinesis:kineses resis:reses gnosis:gnoses opsis:opses ysis:yses ouse:ouses lause:lauses us:uses ch:ches io:ios
sh:shes ss:sses ez:ezzes iz:izzes tz:tzes zz:zzes ano:anos lo:los to:tos oo:oos o:oes x:xes
"""


@cache
def plural_of(word: str) -> str:
    """The plural of a lower-case word; a plural is returned unchanged."""
    words, plurals, endings = _tables()
    if word in words:
        return words[word]
    if word in plurals:
        return word
    for ending, replacement in endings:
        if word.endswith(ending):
            return word[: len(word) - len(ending)] + replacement
    return word if word.endswith("s") else f"{word}s"


@cache
def _tables() -> tuple[dict[str, str], frozenset[str], list[tuple[str, str]]]:
    """Whole words, plurals, and (ending, replacement) pairs in the order in which they are tried; plural endings are kept."""
    pairs = [entry.split(":") for entry in _IRREGULAR.split()]
    words = {singular.removeprefix("="): plural for singular, plural in pairs}
    plurals = frozenset(plural for singular, plural in words.items() if singular not in _NO_PLURAL_OF) | frozenset(
        _OTHER_PLURALS.split()
    )
    # kro tries the irregular words from the last to the first, then the endings from the first to the last.
    compound = [(singular, plural) for singular, plural in reversed(pairs) if not singular.startswith("=")]
    regular = [tuple(entry.split(":")) for entry in _ENDINGS.split()]
    endings = [rule for singular, plural in (*compound, *regular) for rule in ((plural, plural), (singular, plural))]
    return words, plurals, endings


_STATE: Object = {"type": "string"}
_CONDITIONS: Object = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            **{name: {"type": "string"} for name in ("type", "status", "reason", "message", "lastTransitionTime")},
            "observedGeneration": {"type": "integer"},
        },
    },
}
_COLUMNS: list[Object] = [
    {
        "name": "State",
        "description": "The state of a ResourceGraphDefinition instance",
        "type": "string",
        "jsonPath": ".status.state",
    },
    {
        "name": "Ready",
        "description": "Whether a ResourceGraphDefinition instance is ready",
        "type": "string",
        "jsonPath": '.status.conditions[?(@.type=="Ready")].status',
    },
    {"name": "Age", "description": "Age of the resource", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
]


def generate(block: SchemaBlock, spec: Object, status: Object) -> Object:
    """The CustomResourceDefinition. `spec` is the schema of an instance's spec, `status` that of the author's status fields."""
    properties = {**copy.deepcopy({"state": _STATE, "conditions": _CONDITIONS}), **status.get("properties", {})}
    root: Object = {
        "type": "object",
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": spec,
            "status": {"type": "object", **status, "properties": properties},
        },
    }
    names = _names(block)
    metadata: Object = {"name": f"{names['plural']}.{block.group}"}
    if block.labels:
        metadata["labels"] = dict(block.labels)
    if block.annotations:
        metadata["annotations"] = dict(block.annotations)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": {
            "group": block.group,
            "names": names,
            "scope": "Namespaced" if block.namespaced else "Cluster",
            "versions": [_version(block, root)],
        },
    }


def _names(block: SchemaBlock) -> Object:
    lower = block.kind.lower()
    names: Object = {"kind": block.kind, "listKind": f"{block.kind}List", "plural": plural_of(lower), "singular": lower}
    if block.short_names:
        names["shortNames"] = list(block.short_names)
    if block.categories:
        names["categories"] = list(block.categories)
    return names


def _version(block: SchemaBlock, root: Object) -> Object:
    return {
        "name": block.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": root},
        "subresources": {"status": {}},
        "additionalPrinterColumns": copy.deepcopy(list(block.columns) or _COLUMNS),
    }


def instance_schema(block: SchemaBlock, spec: Object) -> Schema:
    """The schema of the variable `schema` in expressions: an instance without its status."""
    properties: Object = {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "spec": spec,
        "metadata": {"$ref": OBJECT_META},
    }
    if not block.namespaced:
        node = builtin_scheme().node(OBJECT_META)
        visible = {name: child for name, child in node["properties"].items() if name != "namespace"}
        properties["metadata"] = {**node, "properties": visible}
    return build({"type": "object", "properties": properties}, builtin_scheme().component)
