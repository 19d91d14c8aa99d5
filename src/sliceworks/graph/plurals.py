"""The plural of a kind's name, as the names of resources need it: kro's, so that the same kind gives the same resource."""

from __future__ import annotations

from functools import cache

# Words whose plural follows no rule. They count at the end of compound words too, unless marked with =.
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
# Other plurals of the same words: what has one of these is plural already.
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
def plural(word: str) -> str:
    """The plural of a word in lower case. A word that is plural already stays as it is."""
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
    """Whole words, plurals, and endings in the order in which they are tried: plural endings stay, singular ones are replaced."""
    pairs = [entry.split(":") for entry in _IRREGULAR.split()]
    words = {one.removeprefix("="): many for one, many in pairs}
    plurals = frozenset(many for one, many in words.items() if one not in _NO_PLURAL_OF) | frozenset(_OTHER_PLURALS.split())
    # The last of the irregular words is tried first, then the endings from the first to the last.
    compound = [(one, many) for one, many in reversed(pairs) if not one.startswith("=")]
    regular = [tuple(entry.split(":")) for entry in _ENDINGS.split()]
    endings = [rule for one, many in (*compound, *regular) for rule in ((many, many), (one, many))]
    return words, plurals, endings
