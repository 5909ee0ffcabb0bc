"""Canonical names: which mentions name the same thing, by their text and by the acronyms that their document defines.

`fold_name` makes one key of texts that differ in spelling of characters (Unicode NFKC), case, white space, hyphens,
determiners or plural. `find_acronyms` finds the pairs of long form and acronym in a text, such as "named entity
recognition (NER)", by the algorithm of Schwartz and Hearst (2003). They hold in this text only: elsewhere, the same
letters may mean something else.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping

__all__ = [
    "AWKWARD_NAME", "CAPITALS", "OTHERS", "expand_acronyms", "find_acronyms", "fold_name", "is_plural", "is_pronoun",
    "names_nothing", "normalize_text", "strip_general_noun",
]  # fmt: skip

DETERMINERS = frozenset(
    {
        *("a", "an", "another", "any", "both", "each", "either", "every", "its", "his", "her", "my", "our", "some"),
        *("such", "that", "the", "their", "these", "this", "those", "your"),
    }
)
"""Words at the start of a mention that say which one is meant, and not what it is."""
AWKWARD_NAME = re.compile(rf"(?i)[(]|^(?:{'|'.join(sorted(DETERMINERS))}) ")
"""Names that are not shown if there is another one that is as frequent: with brackets, or with a determiner."""
PRONOUNS = frozenset(
    {
        *("he", "her", "hers", "herself", "him", "himself", "his", "i", "it", "its", "itself", "me", "mine"),
        *("myself", "one", "ones", "others", "our", "ours", "ourselves", "she", "that", "their", "theirs", "them"),
        *("themselves", "these", "they", "this", "those", "us", "we", "what", "which", "who", "whom", "whose"),
        *("you", "your", "yours"),
    }
)
CAPITALS = re.compile(r"[A-Z][^ ]*[A-Z]")
"""What the name of an acronym has."""
IRREGULAR_PLURALS = {
    "analyses": "analysis", "axes": "axis", "bases": "basis", "caches": "cache", "children": "child",
    "corpora": "corpus", "corpuses": "corpus", "crises": "crisis", "criteria": "criterion", "data": "data",
    "feet": "foot", "formulae": "formula", "genera": "genus", "hypotheses": "hypothesis", "indices": "index",
    "lenses": "lens", "matrices": "matrix", "men": "man", "metadata": "metadata", "mice": "mouse", "movies": "movie",
    "nuclei": "nucleus", "optima": "optimum", "parentheses": "parenthesis", "people": "person",
    "phenomena": "phenomenon", "schemata": "schema", "series": "series", "species": "species", "spectra": "spectrum",
    "stimuli": "stimulus", "syntheses": "synthesis", "taxa": "taxon", "theses": "thesis", "vertices": "vertex",
    "women": "woman",
}  # fmt: skip
MIN_PLURAL_CHARACTERS = 4
"""Shorter words keep their `s`: "gas", "bus", "GPS"."""
MAX_ACRONYM_PLURAL = 5
"""A word of up to as many characters is an acronym if it is in capitals: its last `s` is a plural only if small."""
DASHES = re.compile(r"[\u002d\u00ad\u2010-\u2015\u2212\ufe58\ufe63\uff0d]+")
BETWEEN_WORDS = re.compile(r"(?<!\d) | (?!\d)")
"""A space that does not part two numbers."""
EDGES = " \t\"'`“”‘’«»,;:.!?"
"""Punctuation that a mention may begin or end with by mistake."""

GLOSS = re.compile(r"(.*\S)\s\(([^()]*)\)")
"""A name with an explanation in brackets at its end."""
SPELLINGS = (
    (re.compile(r"(?<=[a-z]{3})is(?=ations?\b)"), "iz"),
    (re.compile(r"\b(model|label|signal)l(?=ing\b|ed\b|ers?\b)"), r"\1"),
    (re.compile(r"\b(behavi|neighb|col)our"), r"\1or"),
    (re.compile(r"\bneural (?:net|network model|network architecture)\b"), "neural network"),
)
"""Spellings of normalized names that mean the same: British ones, and variants of "neural network"."""
GENERAL_NOUNS = frozenset(
    {
        *("algorithm", "approach", "architecture", "corpus", "dataset", "framework", "mechanism", "method", "model"),
        *("module", "network", "problem", "scheme", "system", "task", "technique", "tool"),
    }
)
"""Nouns that a name can go without: "the SHREWD method" is "SHREWD"."""

ROLES = frozenset(
    {
        *("alternative", "art", "available", "baseline", "common", "conventional", "current", "different", "effective"),
        *("efficient", "existing", "general", "high", "known", "large", "modern", "new", "novel", "of", "other"),
        *("overall", "popular", "powerful", "previous", "prior", "proposed", "public", "publicly", "quality", "real"),
        *("recent", "robust", "scale", "simple", "single", "small", "standard", "state", "the", "traditional"),
        *("unified", "various", "well", "whole"),
    }
)
"""Words that say what something is to its document, or how good it is."""
OTHERS = frozenset(
    {
        *("all", "conventional", "different", "existing", "many", "most", "other", "previous", "prior", "recent"),
        *("several", "some", "traditional", "various"),
    }
)
"""Words before a generic mention that is not what the document has named: "existing methods"."""
PLURAL_PRONOUNS = frozenset({"them", "themselves", "these", "they", "those", "we", "us", "ones", "others"})
POINTERS = frozenset({"our", "proposed", "resulting", "such", "that", "these", "this", "those"})
"""Words that point to something in the same document."""

ACRONYM = re.compile(r"\(\s*([^\s()\[\]]{2,12})\s*[);,]|\[\s*([^\s()\[\]]{2,12})\s*\]")
"""A single word in brackets, perhaps with more behind a comma."""
LONG_FORM = re.compile(r"\(\s*([^()]{4,120}?)\s*\)")
"""Words in brackets, which may explain the acronym before them."""
MAX_LONG_FORM_CHARACTERS = 200
WORD = re.compile(r"[^\W_]+")
FUNCTION_WORDS = frozenset(
    {
        *("a", "an", "and", "as", "at", "by", "for", "from", "in", "of", "on", "or", "that", "the", "this", "to"),
        *("we", "with"),
    }
)
"""Words that no long form begins with."""


def normalize_text(text: str) -> str:
    """Normalize a text: Unicode NFKC, case folding, and one space for every run of white space.

    >>> normalize_text("Part-of-Speech\\n  TAGGING")
    'part-of-speech tagging'
    """
    return " ".join(unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold()).split())


def fold_name(text: str) -> str:
    """The key of a name: normalized, without hyphens, spaces, leading determiners and plural. Empty only for no text.

    >>> [fold_name(text) for text in ("the pre-trained taggers", "LLMs", "GPS", "GPs", "GPT 3 5")]
    ['pretrainedtagger', 'llm', 'gps', 'gp', 'gpt3 5']

    Of a name with an explanation in brackets, the key is that of the shorter name if that is one word in capitals,
    else that of the name before the brackets:

    >>> [fold_name(text) for text in ("SHREWD (a faster search)", "iterative refinement module (IGraSS)")]
    ['shrewd', 'igrass']
    """
    if gloss := GLOSS.fullmatch(text):
        inner = _strip_plural(gloss[2].strip())
        return fold_name(inner if _is_acronym(inner) else gloss[1])
    plain = normalize_text(text)
    words = DASHES.sub(" ", unicodedata.normalize("NFKC", text).strip(EDGES)).split()
    while len(words) > 1 and (words[0].casefold() in DETERMINERS or words[0] in ("and", "of", "or")):
        del words[0]
    if not words:
        return plain
    folded = normalize_text(" ".join([*words[:-1], _singular(words[-1])]))
    for pattern, replacement in SPELLINGS:
        folded = pattern.sub(replacement, folded)
    return BETWEEN_WORDS.sub("", folded) or plain


def strip_general_noun(text: str) -> str:
    """Leave out a general noun at the end of a name, or before a name in capitals.

    >>> [strip_general_noun(text) for text in ("SHREWD method", "framework IGraSS", "method", "parsing task")]
    ['SHREWD', 'IGraSS', 'method', 'parsing']
    """
    words = text.split()
    if len(words) > 1 and _singular(words[-1]).casefold() in GENERAL_NOUNS:
        return " ".join(words[:-1])
    if len(words) > 1 and words[-2].casefold() in GENERAL_NOUNS and _is_acronym(_strip_plural(words[-1])):
        return words[-1]
    return text


def _singular(word: str) -> str:
    """The singular of a noun by rules for English; case is kept, because it tells the plural of an acronym."""
    lower = word.casefold()
    if lower in IRREGULAR_PLURALS:
        return IRREGULAR_PLURALS[lower]
    stem, is_acronym = word[:-1], word[:-1].isupper() and len(word) <= MAX_ACRONYM_PLURAL
    if not lower.endswith("s") or not stem.isalnum() or stem.isdigit():
        return word
    if is_acronym:
        return stem if word[-1] == "s" and len(stem) > 1 else word
    if len(word) < MIN_PLURAL_CHARACTERS or lower.endswith(("ss", "us", "is")):
        return word
    if lower.endswith("ies") and len(word) > MIN_PLURAL_CHARACTERS:
        return f"{lower[:-3]}y"
    if lower.endswith(("sses", "xes", "ches", "shes", "zzes")):
        return lower[:-2]
    return stem


def is_pronoun(text: str) -> bool:
    """Whether a mention is only a pronoun or a determiner, which names nothing. "US" and "WHO" are names.

    >>> is_pronoun("It"), is_pronoun("its parser"), is_pronoun("IT")
    (True, False, False)
    """
    return normalize_text(text) in PRONOUNS and not (text.isupper() and len(text) > 1)


def is_plural(text: str) -> bool:
    """Whether a mention is in the plural.

    >>> is_plural("our methods"), is_plural("they"), is_plural("LLMs"), is_plural("analysis"), is_plural("nets (DNN)")
    (True, True, True, False, True)
    """
    words = GLOSS.sub(r"\1", text).strip(EDGES).split()
    return bool(words) and (words[-1].casefold() in PLURAL_PRONOUNS or _singular(words[-1]) != words[-1])


def names_nothing(text: str, before: str = "") -> bool:
    """Whether a mention means something only in its document: a pronoun, "baseline model", or "parser" in "our parser".

    >>> [names_nothing("it"), names_nothing("baseline model"), names_nothing("parser"), names_nothing("parser", "our")]
    [True, True, False, True]

    Args:
        text: The text of the mention.
        before: The word before it.
    """
    if is_pronoun(text):
        return True
    words = [word.casefold() for word in DASHES.sub(" ", text).split()]
    if len(text.split()) == 1 and text.islower() and before.casefold() in POINTERS:
        return True
    return bool(words) and all(word in ROLES or _singular(word) in GENERAL_NOUNS for word in words)


def find_acronyms(text: str) -> dict[str, str]:
    """The acronyms that a text defines, with their long forms.

    >>> find_acronyms("Named entity recognition (NER) is easier than BMR (broad meaning representation).")
    {'NER': 'Named entity recognition', 'BMR': 'broad meaning representation'}

    Args:
        text: The text of a document. A definition does not cross a line end.

    Returns:
        The long form of each acronym. Of two definitions of the same acronym, the first one holds.
    """
    found: dict[str, str] = {}
    if "(" not in text and "[" not in text:
        return found
    for match in ACRONYM.finditer(text):
        short = _strip_plural(match[1] or match[2])
        if short in found or not _is_acronym(short):
            continue
        before = text[max(0, match.start() - MAX_LONG_FORM_CHARACTERS) : match.start()].rpartition("\n")[2]
        words = re.split(r"[;:!?()\[\]]|[.,] ", before)[-1].split()
        if long := _match_long_form(short, " ".join(words[-_max_words(short) :])):
            found[short] = long
    for match in LONG_FORM.finditer(text):
        word = text[: match.start()].rstrip(" ").rpartition(" ")[2].rpartition("\n")[2].strip(EDGES)
        short = _strip_plural(word)
        if " " in match[1] and short not in found and _is_acronym(short):
            long = _match_long_form(short, match[1])
            if long == match[1]:
                found[short] = long
    return found


def _is_acronym(word: str) -> bool:
    return 2 <= len(word) <= 10 and word[0].isalnum() and sum(map(str.isupper, word)) >= 2


def _strip_plural(word: str) -> str:
    return word[:-1] if word.endswith("s") and word[:-1].isupper() and len(word) > 2 else word


def _max_words(short: str) -> int:
    """The largest number of words of a long form, as Schwartz and Hearst give it."""
    return min(len(short) + 5, 2 * len(short))


def _match_long_form(short: str, before: str) -> str:
    """The end of `before` that an acronym stands for; empty if there is none.

    Either its words begin with the letters of the acronym, or it is the shortest end with these letters in order, the
    first of them at the start of a word. The letters are in several words: "classification model (CAT)" explains
    nothing.
    """
    letters = [letter for letter in short.casefold() if letter.isalnum()]
    starts = [match.start() for match in WORD.finditer(before)][-len(letters) :]
    if [before[start].casefold() for start in starts] == letters and _starts_name(before, starts[0]):
        return before[starts[0] :]
    i = len(before)
    last = 0
    for k in range(len(short) - 1, -1, -1):
        letter = short[k].casefold()
        if not letter.isalnum():
            continue
        i -= 1
        while i >= 0 and (before[i].casefold() != letter or (k == 0 and not _starts_name(before, i))):
            i -= 1
        if i < 0:
            return ""
        last = last or i
    long = before[i:]
    # one that holds the acronym itself explains nothing either
    return long if not before[i:last].isalnum() and short not in long.split() and len(long) > len(short) else ""


def _starts_name(text: str, i: int) -> bool:
    """Whether a name can start at a position: it is the start of a word that is no function word."""
    return (i == 0 or not text[i - 1].isalnum()) and text[i:].partition(" ")[0].casefold() not in FUNCTION_WORDS


def expand_acronyms(text: str, acronyms: Mapping[str, str]) -> str:
    """Replace the acronyms in a name by their long forms, and leave them out where they stand behind these.

    >>> expand_acronyms("neural NER systems", {"NER": "named entity recognition"})
    'neural named entity recognition systems'
    >>> expand_acronyms("named entity recognition (NER)", {"NER": "named entity recognition"})
    'named entity recognition'
    """
    if not acronyms:
        return text
    words = []
    for word in text.split():
        inner = word.strip("()[]")
        short = _strip_plural(inner)
        if short not in acronyms:
            words.append(word)
        elif not (words and word in (f"({inner})", f"[{inner}]")):  # in brackets, it is behind its long form
            words.append(word.replace(inner, acronyms[short]))
    return " ".join(words) or text
