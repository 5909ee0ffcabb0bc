"""The component `unire` for spaCy pipelines. Needs `unire[spacy]`.

    >>> nlp = spacy.blank("en")  # doctest: +SKIP
    >>> nlp.add_pipe("sentencizer")  # doctest: +SKIP
    >>> nlp.add_pipe("unire", config={"model": "science"})  # doctest: +SKIP
    >>> nlp("We train a parser on the Penn Treebank.")._.relations  # doctest: +SKIP

spaCy finds the component by its entry point, so users need not import this package.
"""

from importlib.util import find_spec

from unire.errors import UnireError

if find_spec("spacy") is None:
    raise UnireError('the component needs spaCy: pip install "unire[spacy]"')

from unire.integrations.spacy.annotation import SpanRelation, arcs, register_extensions
from unire.integrations.spacy.component import UnirePipe

__all__ = ["SpanRelation", "UnirePipe", "arcs", "register_extensions"]
