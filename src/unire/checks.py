"""Whether values that come from outside, by JSON or the command line, are of the kind that a dataclass declares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args, get_origin, get_type_hints

from unire.exceptions import UnireError

__all__ = ["check_kinds", "fits"]


def check_kinds(cls: type, values: Mapping[str, Any], what: str) -> None:
    """Refuse values that are not of the types of the fields of the dataclass `cls`.

    Args:
        cls: Whose fields they will be.
        values: By the names of fields.
        what: What they are called in the error, "training setting" say.
    """
    kinds = get_type_hints(cls)
    for name, value in values.items():
        if not fits(value, kinds[name]):
            named = get_origin(kinds[name]) is Literal
            choice = f"; there are {', '.join(get_args(kinds[name]))}" if named else ""
            raise UnireError(f"{what} {name} = {value!r} is of the wrong kind{choice}")


def fits(value: object, kind: Any) -> bool:
    """Whether a value is of a type; a whole number is a number too, and nothing else is taken for something else."""
    origin, options = get_origin(kind), get_args(kind)
    if origin is Literal:
        return value in options
    if origin is tuple:  # tuple[X, ...]
        return isinstance(value, tuple) and all(fits(part, options[0]) for part in value)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return isinstance(value, origin)
    if options:
        return any(fits(value, option) for option in options)
    if kind is float:
        kind = (int, float)
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
