"""Documents → encoder inputs.

`WindowBuilder` splits a document into table spans (a sentence, or a part of a very long one) and puts them, with their
context, into windows that an encoder can read. `bucket_groups` and `collate` make padded batches of them:

    >>> builder = WindowBuilder(tokenizer, spec, layout="shared")  # doctest: +SKIP
    >>> for groups in bucket_groups(builder.build(documents), max_cells=2**20, max_tokens=2**14):  # doctest: +SKIP
    ...     batch = collate(groups, spec)

There are three layouts. `in-place` gives every sentence its own window, with context to its left and right.
`released` puts the sentence behind its context, as the authors' code does. `shared` reads consecutive sentences in one
window, so that the encoder reads the text once.
"""
