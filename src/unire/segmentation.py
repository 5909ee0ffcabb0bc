"""Segmentation: raw text → sentences and words, with their character offsets.

    >>> document = segment("We don't parse (e.g.) Dr. Smith's notes. It rained.")
    >>> [" ".join(sentence.words) for sentence in document.sentences]
    ["We do n't parse ( e.g. ) Dr. Smith 's notes .", 'It rained .']

Words follow the Penn Treebank, like the training data: punctuation, brackets and `n't` are separate words;
compounds with hyphens and slashes stay whole, and so do numbers, addresses and abbreviations. Every character that is
not white space is in exactly one word. Both steps are rules for English. They read the text once, from left to right,
in linear time. Other languages get reasonable words.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from itertools import repeat
from typing import Any

from unire.documents import Document, Sentence
from unire.errors import UnireError

__all__ = [
    "JOINTS",
    "LETTER",
    "SIGNS",
    "WORD",
    "check_texts",
    "check_words",
    "detokenize",
    "find_line_ends",
    "normalize_word",
    "segment",
    "segment_texts",
    "split_word",
]

SPELLINGS = {
    "-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}", "\\/": "/", "\\*": "*",
    "``": '"', "''": '"', "“": '"', "”": '"', "`": "'", "‘": "'", "’": "'",
}  # fmt: skip
"""Treebank escapes and typographic quotes, with their plain forms."""

_SPELLING = re.compile("|".join(map(re.escape, SPELLINGS)))

_OPENING, _CLOSING = ("(", "[", "{"), (")", "]", "}", ",", ".", ";", ":", "?", "!", "%", "...", "'")
_CLITIC = re.compile(r"'(?:s|d|m|re|ve|ll)|n't", re.IGNORECASE)


def normalize_word(word: str) -> str:
    """Undo the escapes of the Treebank, and make quotes straight."""
    return _SPELLING.sub(lambda found: SPELLINGS[found[0]], word)


def detokenize(document: Document) -> Document:
    """Rewrite a tokenized document as ordinary text, with the same sentences, words and annotation.

    Words are normalized. Punctuation, brackets, quotes and `n't` are attached as in written English, and sentences are
    separated by a space. A full stop after an abbreviation that ends in one is written once, as its own word.
    Attributes are dropped.
    """
    text = ""
    sentences: list[list[str]] = []
    offsets: list[tuple[int, int]] = []
    for sentence in document.sentences:
        words = [normalize_word(word) for word in sentence.words]
        for i, word in enumerate(words[:-1]):
            if word.endswith(".") and len(word) > 1 and words[i + 1] == ".":
                words[i] = word[:-1]
        spaces = _spaces(words, sentence.words)
        for word, space in zip(words, spaces, strict=True):
            text += " " if space and text else ""
            offsets.append((len(text), len(text) + len(word)))
            text += word
        sentences.append(words)
    position = {entity: i for i, entity in enumerate(document.entities)}
    return Document.from_words(
        sentences,
        [(e.start, e.end, e.label, e.score) for e in document.entities],
        [(position[r.head], position[r.tail], r.label, r.score) for r in document.relations],
        text=text,
        offsets=offsets,
        id=document.id,
        meta=document.meta,
    )


def _spaces(words: Sequence[str], escaped: Sequence[str]) -> list[bool]:
    """For each word of a sentence, whether a space precedes it."""
    spaces = []
    space = True
    quoted = False
    for i, word in enumerate(words):
        opens = word in _OPENING or escaped[i] == "`"
        closes = word in _CLOSING and not opens
        if word == '"':
            # Some data have '' on both sides: without an open quote to its left, it opens one.
            opens = escaped[i] == "``" or (not quoted and '"' in words[i + 1 :])
            closes = not opens
            quoted = opens
        clitic = _CLITIC.fullmatch(word) or (word.lower() == "not" and i > 0 and words[i - 1].lower() == "can")
        spaces.append(space and not closes and not clitic)
        space = not opens
    return spaces


def _split_list(words: str) -> frozenset[str]:
    return frozenset(words.split())


# Abbreviations

NON_FINAL_ABBREVIATIONS = _split_list(
    """
    Mr. Mrs. Ms. Messrs. Dr. Drs. Prof. Sen. Sens. Rep. Reps. Gov. Gen. Lt. Col. Maj. Sgt. Capt. Cmdr. Adm.
    Rev. Hon. Pres. St. Mt. Ft. Fig. Figs. fig. figs. Eq. Eqs. eq. eqs. Eqn. Sec. Sect. Tab. Ref. Refs. ref.
    refs. Thm. Prop. Lem. Alg. Def. Vol. Vols. pp. vs. Vs. cf. Cf. viz. approx. resp. ca. esp. incl. excl.
    i.e. e.g. I.e. E.g. w.r.t. Proc. Conf. Trans. Ann. Phys. Lett. Math. Statist. Electron. Comput. Eur. Int.
    Ed. Eds.
    """
)
"""Abbreviations that never end a sentence."""

FINAL_ABBREVIATIONS = _split_list(
    """
    etc. al. Ph.D. Inc. Ltd. Co. Cos. Corp. Bros. Jr. Sr. Univ. Dept. Jan. Feb. Mar. Apr. Aug. Sept. Sep. Oct.
    Nov. Dec. Ala. Ariz. Ark. Calif. Colo. Conn. Del. Fla. Ga. Ill. Kan. Ky. La. Mass. Md. Mich. Minn. Miss.
    Mo. Mont. Neb. Nev. Okla. Ore. Pa. Penn. Tenn. Tex. Va. Vt. Wash. Wis. Wyo.
    """
)
"""Abbreviations that may end a sentence: like initials and `U.S.`, they do before one of `SENTENCE_STARTERS`."""

COMPOUND_PARTICIPLES = frozenset(
    (
        *("affiliated", "allied", "backed", "based", "born", "bound", "brokered", "built", "controlled", "dominated"),
        *("educated", "funded", "headquartered", "held", "led", "listed", "made", "occupied", "owned", "registered"),
        *("ruled", "run", "speaking", "sponsored", "trained"),
    )
)
"""Words that follow a name and a hyphen: Bergen-based, U.S.-led. The name alone is the entity."""

DETACHED_STOPS = frozenset(("etc.", "al."))
"""For these and for initials, a full stop that also ends the sentence is a separate word."""

SENTENCE_STARTERS = _split_list(
    """
    A An The This That These Those It Its He She We They You I His Her Our Their My Your There Here In On At
    By For From With Without Within Under Over To As If When While Where Although Though Because Since After
    Before During Despite Unlike And But Or Nor So Yet Thus Hence Therefore However Moreover Furthermore
    Finally First Second Third Then Also Additionally Instead Specifically Recently Both Each Such Some Many
    Most Several All Other Another One Two What Who How Why Which Using Based Given Experiments Experimental
    Results
    """
)
"""Words that start a sentence if they follow an abbreviation, rather than continue a name."""

# Words

SYMBOLS = (
    r"!-/:-@\[-\^`{-~"  # ASCII, but for the underscore
    "¡-©«-±´¶-¸»-¿×÷"
    "֊־׀׃،؛؟۔।॥"
    "‐-‧‰-⁞₠-⃏←-⯿"  # general punctuation, currencies, arrows, mathematics, dingbats
    "、-〃〈-】〔-〟！-／：-＠［-｀｛-･"
    "\U0001f000-\U0001faff"
)
"""Characters that are no letters. All others but white space count as letters, in any alphabet."""

MARK = "\ufeff"
"""The byte order mark at the start of some files; it counts as white space."""
LETTER = rf"[^\s{MARK}{SYMBOLS}]"
JOINTS = "-‐‑–/&@.'’‘´"
"""Characters that join letters into one word: state-of-the-art, and/or, Q&A, 3.5, O'Brien, Hawai‘i."""
SIGNS = r"$€£¥\#"
"""Signs that a word may start with: $100, #P."""

WORD = re.compile(
    rf"""
      [A-Za-z]+(?=[\s,])                                              # most words: the rest need not be tried
    | (?:https?://|www\.)[^\s<>"]*[^\s<>"'.,;:!?)\]}}’”]              # addresses, without what follows them
    | (?:[^\W\d_]\.){{2,}}(?:-{LETTER}+)*                             # U.S., i.i.d., U.S.-led
    | [A-ZÀ-ÖØ-Þ]\.(?=\s[A-ZÀ-ÖØ-Þ])                                  # initials
    | No\.(?=\s?\d)
    | -[LR][RSC]B-(?!{LETTER})                                        # the Treebank's brackets
    | (?:{"|".join(sorted(re.escape(a) for a in NON_FINAL_ABBREVIATIONS | FINAL_ABBREVIATIONS))})(?!{LETTER})
    | (?:[-+−](?=\.?\d)|[{SIGNS}](?={LETTER})|\.(?=\d))*              # -96.7, $100, #P, .01
      {LETTER}+(?:
          [{JOINTS}]{LETTER}+
        | (?<=\d),(?=\d{{3}}(?!\d)){LETTER}+                          # 100,000
        | (?<=\d):(?=\d){LETTER}+                                     # 10:30
      )*(?:\+\+)?
    | ['’](?:s|d|m|re|ve|ll|S|D|M|RE|VE|LL|\d\ds?)(?!{LETTER})        # 's after a bracket or a quote, '95
    | ``|''|\.{{2,}}|-{{2,}}|—+
    | [\U0001f000-\U0001faff][\U0001f000-\U0001faff\u200d\ufe0f]*
    | [^\s{MARK}]
    """,
    re.VERBOSE,
)

CONTRACTION = re.compile(r"(?s:.+)(?=n['’]t$)|(?s:.+)(?=['’](?:s|d|m|re|ve|ll)$)|can(?=not$)", re.IGNORECASE)

# Sentences

STOP = re.compile(r"\.+|[!?…‽؟۔।॥]")
STOPS = frozenset(".!?…‽؟۔।॥。！？")
WIDE_STOP = frozenset("。！？")
"""Full stops that need no space after them."""
BRACKETS = frozenset(")]}”’»」』）")
CLOSING = BRACKETS | {'"', "'", "''"}
"""Words allowed between a full stop and the end of its sentence. Straight quotes after a space are opening ones."""
INITIAL = re.compile(r"\w\.")
PARAGRAPH = re.compile(r"\n[^\S\n]*\n|\r[^\S\r\n]*\r")

ITEM = re.compile(r"\s*(?:[-*•·–‣▪◦]|\(?(?:\d{1,2}|[a-z]|[ivx]{1,4})[.)])\s+\S", re.IGNORECASE)
"""The start of an item of a list."""
UNFINISHED_LINE = re.compile(
    r"[,(\[{&/–—-]$|\b(?:an?|the|and|or|of|in|on|at|to|for|with|by|from|as|that)$", re.IGNORECASE
)
"""The end of a line whose sentence goes on."""
MAX_ITEM_CHARACTERS = 50
"""If no line is longer, the lines were not wrapped, but are items."""
TITLE_WIDTH = 0.5
"""The share of the width that a line and the next word may have, if the line was ended on purpose."""

Span = tuple[int, int]


def segment(
    text: str, *, id: str = "", sentences: Iterable[Span] | None = None, line_breaks: bool | None = None
) -> Document:
    """Split a text into sentences and words.

    Args:
        text: Any text. An empty line ends a sentence.
        id: A name for the document.
        sentences: Start and end of each sentence in characters, if known. Then only words are split.
        line_breaks: Whether a single line end ends a sentence, too. Otherwise it is a space. [default: only where lines
            are clearly titles or items of a list]
    """
    found = []
    start = 0
    for spans in (
        _find_sentences(text, _find_words(text), find_line_ends(text, line_breaks))
        if sentences is None
        else _split_given_sentences(text, sentences)
    ):
        found.append(Sentence(start, tuple(text[a:b] for a, b in spans), tuple(spans)))
        start += len(spans)
    return Document(text, tuple(found), id=id)


def _split_given_sentences(text: str, sentences: Iterable[Span]) -> Iterator[list[Span]]:
    for first, end in sentences:
        words = [(first + a, first + b) for a, b in _find_words(text[first:end])]
        if words:
            yield _detach_stop(text, words)


def _find_words(text: str) -> Iterator[Span]:
    for found in WORD.finditer(text):
        start = found.start()
        for part in split_word(found[0]):
            yield start, start + len(part)
            start += len(part)


def split_word(word: str) -> list[str]:
    """Split contractions and compounds: `Don't` into `Do` and `n't`, `U.S.-led` into `U.S.`, `-` and `led`."""
    if cut := find_contraction(word):
        return [word[:cut], word[cut:]]
    if hyphen := find_compound(word):
        return [word[:hyphen], "-", word[hyphen + 1 :]]
    return [word]


def find_contraction(word: str) -> int:
    """Return the position of a contraction that is a separate word, such as `n't` or `'s`; 0 if there is none."""
    if "'" in word or "’" in word or word.endswith("not"):
        found = CONTRACTION.match(word)
        return found.end() if found else 0
    return 0


def find_compound(word: str) -> int:
    """Return the position of the hyphen between a name and a participle, as in `Bergen-based`; 0 if there is none.

    Name, hyphen and participle are words of their own, so that an entity is the name alone. A name has a capital. The
    first part of `drug-induced` is one, too.
    """
    name, hyphen, participle = word.rpartition("-")
    if not hyphen or (participle not in COMPOUND_PARTICIPLES and participle != "induced"):
        return 0
    return len(name) if participle == "induced" or (len(name) > 1 and name != name.lower()) else 0


def find_line_ends(text: str, line_breaks: bool | None = None) -> frozenset[int]:
    """The positions of the line ends that end a sentence.

    Args:
        text: Any text.
        line_breaks: Whether all do. By default, a line end does if the next line is one of several items with a mark
            (`-`, `2.`, `(b)`); if all lines are short; or if the line was ended on purpose, as after a title: with the
            first word of the next line it would have filled less than half of the width of the text. A line that ends
            with a comma, or is followed by a small letter, goes on.
    """
    ends = [found.start() for found in re.finditer("\n", text)]
    if line_breaks is not None or not ends:
        return frozenset(ends if line_breaks else ())
    lines = text.split("\n")
    width = max(map(len, lines))
    marked = sum(bool(ITEM.match(line)) for line in lines) > 1
    short = width <= MAX_ITEM_CHARACTERS
    items = short and len(lines) > 2 and not any(line.lstrip()[:1].islower() for line in lines)
    found = set()
    for end, line, following in zip(ends, map(str.rstrip, lines[:-1]), map(str.lstrip, lines[1:]), strict=True):
        if not line or not following:
            continue  # paragraphs
        first = following.split(maxsplit=1)[0]
        goes_on = following[0].islower() or UNFINISHED_LINE.search(line)
        title = not short and len(line) + 1 + len(first) <= TITLE_WIDTH * width
        if (marked and ITEM.match(following)) or (not goes_on and (items or title)):
            found.add(end)
    return frozenset(found)


def _find_sentences(text: str, words: Iterator[Span], line_ends: frozenset[int]) -> Iterator[list[Span]]:
    sentence: list[Span] = []
    stop = ""
    """The word that may have ended the sentence; empty if there is none."""
    for start, end in words:
        word = text[start:end]
        if sentence:
            last = sentence[-1][1]
            gap = start - last
            if (
                (stop and _ends_sentence(stop, word, gap))
                or (gap > 1 and PARAGRAPH.search(text, last, start))
                or (line_ends and gap and not line_ends.isdisjoint(range(last, start)))
            ):
                yield _detach_stop(text, sentence)
                sentence = []
                stop = ""
            elif stop and (gap or word not in CLOSING):
                stop = ""
        sentence.append((start, end))
        if word[-1] in STOPS and word not in NON_FINAL_ABBREVIATIONS:
            stop = word
    if sentence:
        yield _detach_stop(text, sentence)


def _ends_sentence(stop: str, following: str, gap: int) -> bool:
    """Whether a sentence ends between `stop`, its last word before closing brackets and quotes, and `following`."""
    if stop in WIDE_STOP:
        return following not in CLOSING
    if not gap:
        return False
    if STOP.fullmatch(stop):
        return not following.islower() and following not in BRACKETS
    return following in SENTENCE_STARTERS


def _detach_stop(text: str, sentence: list[Span]) -> list[Span]:
    """Split off the full stop of the last word if it ends the sentence."""
    start, end = sentence[-1]
    word = text[start:end]
    if word in DETACHED_STOPS or INITIAL.fullmatch(word):
        sentence[-1:] = (start, end - 1), (end - 1, end)
    return sentence


def check_words(words: Sequence[str]) -> Sequence[str]:
    """Check that a sentence is a list of strings."""
    if isinstance(words, str) or not all(isinstance(word, str) for word in words):
        raise UnireError(
            f"a sentence is a list of words, each a string, not {reprlib.repr(words)}; for text, use `extract`"
        )
    return words


def check_texts(texts: Any) -> str | Iterable[str]:
    """Check that the input is a text or an iterable of texts; convert arrays and columns of data frames to lists."""
    kind = type(texts).__name__
    if isinstance(texts, str):
        return texts
    if isinstance(texts, Mapping):
        raise UnireError(f"texts are a string or a list of strings, not a {kind}; give list(texts.values())")
    if isinstance(texts, Document):
        raise UnireError("texts are strings, not documents; extractor.annotate([document]) takes documents")
    if hasattr(texts, "columns"):
        raise UnireError(f'texts are a string or a list of strings, not a {kind}; give one column, as in frame["text"]')
    if isinstance(texts, (bytes, bytearray, memoryview)) or not isinstance(texts, Iterable):
        raise UnireError(f"a text is a string, but {kind} was given; decode or read it first")
    for method in ("tolist", "to_list", "to_pylist"):  # NumPy and pandas, polars, pyarrow
        if hasattr(texts, method):
            return getattr(texts, method)()  # type: ignore[no-any-return]
    return texts


def segment_texts(texts: Iterable[str], ids: Iterable[str] | None = None) -> Iterator[Document]:
    """Segment several texts, one after the other.

    Args:
        texts: The texts, read as the documents are consumed.
        ids: The ids of the documents, one for each text.

    Raises:
        UnireError: Something is not a text, or there are more or fewer ids than texts.
    """
    names = repeat("") if ids is None else _check_ids(texts, ids)
    for position, text in enumerate(texts):
        if not isinstance(text, str):
            hint = "use annotate for documents" if isinstance(text, Document) else "decode or read it first"
            raise UnireError(f"a text is a string, but the one at position {position} is {type(text).__name__}; {hint}")
        try:
            name = next(names)
        except StopIteration:
            raise UnireError(f"there are more texts than ids: {position:,} ids") from None
        yield segment(text, id=name)
    if ids is not None and next(names, None) is not None:
        raise UnireError("there are more ids than texts")


def _check_ids(texts: Iterable[str], ids: Iterable[str]) -> Iterator[str]:
    if isinstance(ids, str) or not isinstance(ids, Iterable):
        raise UnireError(f"ids are a list with one id for each text, not {type(ids).__name__}")
    if isinstance(texts, Sized) and isinstance(ids, Sized) and len(texts) != len(ids):
        raise UnireError(f"ids are one for each text, but there are {len(texts):,} texts and {len(ids):,} ids")
    return map(str, ids)
