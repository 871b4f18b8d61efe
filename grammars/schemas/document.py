"""A schema document: places named by JSON pointer, references resolved to places, never copied.

A place is a key such as "#/properties/a". Schemas that the compiler derives (a negation, an implication) get places of
their own: "!3#/properties/a/not" is the third, and stems from what follows the number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

from ..errors import InvalidConstraint, UnsupportedKeyword
from .json_text import JsonValue
from .metaschemas import metaschema

_NOT_SCHEMAS = frozenset({"const", "enum", "default", "examples"})
# What a look through the whole schema is for; `id` is the older name of `$id` (legacy.py).
_DECLARING = frozenset({"$id", "id", "$anchor", "$dynamicAnchor", "unevaluatedProperties", "unevaluatedItems"})
# Schemas that look alike at first sight, and are compared in full, at most; containers of a schema that is compared.
_LOOKED_AT, _COMPARED = 8, 500
# Where older spellings went: a pointer may still use their names.
_MOVED = {"items": "prefixItems", "additionalItems": "items", "dependencies": "dependentSchemas"}


@dataclass(frozen=True, slots=True)
class Link:
    """Stands in a derived schema for the schema at another place."""

    place: str


# A derived schema: JSON whose subschemas may be links.
Derived = None | bool | int | Decimal | str | Link | Sequence["Derived"] | Mapping[str, "Derived"]


def _token(name: str) -> str:
    """A name as pointers spell it."""
    return name.replace("~", "~0").replace("/", "~1") if "~" in name or "/" in name else name


def pointer_of(place: str) -> str:
    """The place as callers know it: keywords of derived schemas (see keywords.py) are no part of it."""
    if place[0] == "#" and "\udfff" not in place:
        return place
    pointer, _, _ = place[place.index("#"):].partition("/\udfff")
    return pointer


def _is_small(value: object) -> bool:
    """Whether a value may be compared: it has few containers, so they are not nested deep."""
    stack = [value]
    for at, top in enumerate(stack):  # grows while it runs
        if at >= _COMPARED:
            return False
        below = top.values() if isinstance(top, dict) else top if isinstance(top, list) else ()
        stack += [one for one in below if isinstance(one, dict | list)]
    return True


class Document:
    """root: a schema. Everything else is found from "#". names: the keys of all its objects, and perhaps more."""

    def __init__(self, root: JsonValue, names: Set[str]) -> None:
        self._values: dict[str, object] = {"#": root}
        self._derived = 0
        self._resources: dict[str, str] = {}  # absolute URI -> place
        self._bases: dict[str, str] = {}  # place of a resource -> its URI
        self._anchors: dict[tuple[str, str], str] = {}
        self._dynamic: dict[tuple[str, str], str] = {}  # the anchors that are dynamic
        self.unevaluated = False  # some schema may say what becomes of the unevaluated
        self._alike: dict[str, str] = {}  # by place, the first that reads the same
        self._read: dict[tuple[str, ...], list[str]] = {}  # some of those, by what they look like at first sight
        self.repeated: dict[str, list[str]] = {}  # by place, the others that read as it does
        if not _DECLARING.isdisjoint(names):
            self._scan(root)

    def schema(self, place: str) -> bool | dict[str, JsonValue]:
        value = self._values[place]
        if isinstance(value, bool):
            return value
        if isinstance(value, dict):
            return value
        raise InvalidConstraint("a schema must be an object, true or false", keyword="schema", where=pointer_of(place))

    @property
    def split(self) -> bool:
        """Some schema within has an `$id` of its own, so that references mean different things in different places."""
        return any(place != "#" for place in self._bases)

    def child(self, place: str, *tokens: str) -> str:
        """The place below; the tokens must exist there."""
        for token in tokens:
            value = self._values[place]
            below = value[int(token)] if isinstance(value, list) else value[token]  # type: ignore[index]
            if isinstance(below, Link):
                place = below.place
                continue
            place = f"{place}/{_token(token)}"
            self._values[place] = below
        return place

    def children(self, place: str, keyword: str) -> dict[str, str]:
        """The places below the object that a keyword of the schema at `place` holds, by name."""
        above, values, found = self.child(place, keyword), self._values, dict[str, str]()
        held: Any = values[above]
        for name, below in held.items():
            if isinstance(below, Link):
                found[name] = below.place
            else:
                found[name] = here = f"{above}/{_token(name)}"
                values[here] = below
        return found

    def alike(self, place: str) -> str:
        """The first place met whose schema says the same in the same order; a place of its own where equal texts may
        mean different things."""
        found = self._alike.get(place)
        if found is None:
            found = self._alike[place] = self._first(place)
        return found

    def _first(self, place: str) -> str:
        value = self._values[place]
        if not isinstance(value, dict) or not value or place[0] != "#" or self.unevaluated or self.split:
            return place
        sight = (*value, *[below for below in value.values() if isinstance(below, str)])
        known = self._read.setdefault(sight, [])
        for other in known if known and _is_small(value) else ():
            if self._values[other] == value and repr(self._values[other]) == repr(value):
                self.repeated.setdefault(other, []).append(place)
                return other
        if len(known) < _LOOKED_AT:
            known.append(place)
        return place

    def derive(self, source: str, schema: Derived) -> str:
        """A new place for a derived schema that stems from `source`."""
        self._derived += 1
        place = f"!{self._derived}{pointer_of(source)}"
        self._values[place] = schema
        return place

    def resolve(self, reference: str, at: str) -> str:
        """The place that `$ref` of the schema at `at` names. Raises InvalidConstraint or UnsupportedKeyword."""
        where = pointer_of(at) + "/$ref"
        resource = self._resource_of(pointer_of(at))
        locator, fragment = urldefrag(reference)
        if locator:
            absolute = urljoin(self._bases.get(resource, ""), locator)
            if absolute not in self._resources and not self._adopt(absolute):
                raise UnsupportedKeyword(f"$ref {reference!r} is outside this schema, and nothing is fetched",
                                         keyword="$ref", where=where, fix="Put the definition into $defs.")
            resource = self._resources[absolute]
        fragment = unquote(fragment)
        if fragment and not fragment.startswith("/"):
            if (resource, fragment) not in self._anchors:
                raise InvalidConstraint(f"$ref {reference!r} names no anchor", keyword="$ref", where=where)
            return self._anchors[resource, fragment]
        return self._walk(resource, fragment, reference, where)

    def target(self, keyword: str, reference: str, at: str) -> str:
        """The place that a `$ref`, `$dynamicRef` or `$recursiveRef` names. Raises as `resolve` does, and where a
        dynamic reference depends on the way that led to it."""
        place = self.resolve(reference, at)
        if keyword == "$ref":
            return place
        name = unquote(urldefrag(reference)[1]) if keyword == "$dynamicRef" else ""
        where = f"{pointer_of(at)}/{keyword}"
        if keyword == "$recursiveRef":
            if len(self._bases) > 1 or ("#" not in self._bases and self._bases):
                raise UnsupportedKeyword("$recursiveRef between resources is not supported", keyword=keyword,
                                         where=where, fix="Use $ref.")
            return place
        declaring = [resource for resource, anchor in self._dynamic if anchor == name]
        if place not in (self._dynamic[resource, name] for resource in declaring):
            return place  # an ordinary anchor, or a pointer
        # Every way begins at the root, so an anchor there is always the outermost.
        if "#" in declaring:
            return self._dynamic["#", name]
        if len(declaring) > 1:
            raise UnsupportedKeyword(
                f"$dynamicRef {reference!r} could lead to {len(declaring)} places, which depends on the way to it",
                keyword=keyword, where=where, fix="Use $ref, or declare the anchor in the root resource.")
        return place

    def _adopt(self, uri: str) -> bool:
        """Whether this is a meta-schema; it is a resource then, as if it were bundled among the definitions."""
        found = metaschema(uri)
        if found is None:
            return False
        place = f"#/$defs/{uri.replace('/', '~1')}"
        while place in self._bases:
            place += "+"
        self._values[place] = found
        self._declare(place, found, "#")
        return True

    def _walk(self, place: str, fragment: str, reference: str, where: str) -> str:
        for token in fragment.split("/")[1:]:
            name = token.replace("~1", "/").replace("~0", "~")
            value = self._values[place]
            moved = _MOVED.get(name, "")
            if isinstance(value, dict) and name not in value and moved in value:
                name = moved
            inside = (isinstance(value, dict) and name in value) or (
                isinstance(value, list) and name.isascii() and name.isdigit() and len(name) < 9
                and str(int(name)) == name and int(name) < len(value)
            )
            if not inside:
                raise InvalidConstraint(f"$ref {reference!r} leads nowhere", keyword="$ref", where=where)
            place = self.child(place, name)
        if not isinstance(self._values[place], bool | dict):
            raise InvalidConstraint(f"$ref {reference!r} does not lead to a schema", keyword="$ref", where=where)
        return place

    def _resource_of(self, pointer: str) -> str:
        """The nearest enclosing place with an `$id`, or the root."""
        while pointer not in self._bases and "/" in pointer:
            pointer = pointer[:pointer.rindex("/")]
        return pointer if pointer in self._bases else "#"

    def _scan(self, root: JsonValue) -> None:
        """Find `$id` and `$anchor` everywhere; iterative."""
        stack: list[tuple[str, JsonValue, str]] = [("#", root, "#")]
        while stack:
            place, value, resource = stack.pop()
            if isinstance(value, list):
                stack.extend((f"{place}/{i}", item, resource) for i, item in enumerate(value))
            elif isinstance(value, dict):
                resource = self._declare(place, value, resource)
                self.unevaluated |= "unevaluatedProperties" in value or "unevaluatedItems" in value
                for name, item in value.items():
                    if name not in _NOT_SCHEMAS and isinstance(item, list | dict):
                        stack.append((f"{place}/{_token(name)}", item, resource))

    def _declare(self, place: str, value: dict[str, JsonValue], resource: str) -> str:
        identifier = value.get("$id")
        if isinstance(identifier, str) and not identifier.startswith("#"):
            uri = urljoin(self._bases.get(resource, ""), urldefrag(identifier)[0])
            self._bases[place] = uri
            self._resources.setdefault(uri, place)
            resource = place
            self._fill(place)
        for keyword, known in (("$anchor", (self._anchors,)), ("$dynamicAnchor", (self._anchors, self._dynamic))):
            anchor = value.get(keyword)
            if isinstance(anchor, str):
                for anchors in known:
                    anchors[resource, anchor] = place
                self._fill(place)
        return resource

    def _fill(self, place: str) -> None:
        """Make a scanned place known."""
        if place not in self._values:
            tokens = [t.replace("~1", "/").replace("~0", "~") for t in place.split("/")[1:]]
            self.child("#", *tokens)
