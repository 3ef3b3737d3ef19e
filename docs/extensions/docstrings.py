"""What the site's reference needs beyond reading docstrings; a griffe extension (see mkdocs.yml).

Docstrings keep their plain reStructuredText: roles become links, ``::`` becomes code. And
attrs classes get the signature that attrs gives them.
"""

import re
from textwrap import dedent
from typing import Any

import attrs
import griffe

import bdes_framework
import bdes_framework.testing

_ROLE = re.compile(r":(?:class|func|meth|mod|attr):`~?([\w.]+)`")
_LITERAL = re.compile(r"(?m)^(?P<before>.*?)::\n\n(?P<code>(?:(?: {4}.*)?\n?)+)")


class PlainDocstrings(griffe.Extension):
    """Rewrites every docstring of the package, as it is read."""

    def on_instance(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Rewrite one object's docstring."""
        if obj.docstring is not None:
            obj.docstring.value = _LITERAL.sub(_fenced, _ROLE.sub(_linked, obj.docstring.value))


class AttrsSignatures(griffe.Extension):
    """Adds the ``__init__`` that attrs writes, which reading the source does not show."""

    def on_class_members(self, *, cls: griffe.Class, **kwargs: Any) -> None:
        """Add it to one class, if that is an attrs class."""
        if not any(str(decorator.value).startswith("frozen") for decorator in cls.decorators):
            return
        runtime = getattr(__import__(cls.module.path, fromlist=["_"]), cls.name)
        own = griffe.Parameters(griffe.Parameter("self", kind=griffe.ParameterKind.positional_only))
        for field in attrs.fields(runtime):
            member = cls.members.get(field.name)  # None: inherited
            own.add(
                griffe.Parameter(
                    field.name,
                    annotation=getattr(member, "annotation", None),
                    kind=griffe.ParameterKind.positional_or_keyword,
                    default=_default(field.default),
                )
            )
        cls.set_member("__init__", griffe.Function("__init__", parameters=own))


def _default(value: Any) -> str | None:
    if value is attrs.NOTHING:
        return None
    return f"{value.factory.__name__}()" if hasattr(value, "factory") else repr(value)


def _linked(role: re.Match[str]) -> str:
    """Link a public name to its place in the reference; show any other as code."""
    parts = role[1].split(".")
    for public in (bdes_framework, bdes_framework.testing):
        for start, name in enumerate(parts):
            if name in public.__all__:
                shown = ".".join(parts[start:])
                return f"[`{shown}`][{public.__name__}.{shown}]"
    return f"`{role[1]}`"


def _fenced(literal: re.Match[str]) -> str:
    before = f"{literal['before']}:\n\n" if literal["before"] else ""
    return f"{before}```python\n{dedent(literal['code']).strip()}\n```\n\n"
