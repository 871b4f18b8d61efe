"""tools and tool_choice: which functions an answer may or must call, and what that asks of it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Literal, Protocol

from msgspec import structs
from pydantic import BeforeValidator, Field

from ...grammars.constraint import AnyObject, Content, JsonSchema
from ..call_format import CallFormat
from ..conversation import Tool
from ..errors import InvalidParameter
from ..thinking import Thinking
from .asking import Enforced, Wanted
from .errors import MissingField
from .formats import schema_place, schema_text
from .forms import Form, FunctionName


class FunctionForm(Form):
    """strict makes no difference: arguments fit their parameters, or the parameters are refused."""

    name: FunctionName
    description: str | None = None
    parameters: dict[str, object] | None = None
    strict: bool | None = None


class ToolForm(Form):
    type: Literal["function"]
    function: FunctionForm


class NamedForm(Form):
    name: FunctionName


class ReferenceForm(Form):
    type: Literal["function"]
    function: NamedForm


class AllowedForm(Form):
    mode: Literal["auto", "required"]
    tools: Annotated[list[ReferenceForm], Field(min_length=1, max_length=128)]


def as_form(value: object) -> object:
    return {"type": value} if isinstance(value, str) else value


class ChoiceForm(Form):
    """none, auto and required are written as texts."""

    type: Literal["none", "auto", "required", "function", "allowed_tools"]
    function: NamedForm | None = None
    allowed_tools: AllowedForm | None = None

    def check(self) -> None:
        """Raises MissingField, or InvalidParameter for a member of another type."""
        for name in ("function", "allowed_tools"):
            where = f"tool_choice.{name}"
            if name == self.type and getattr(self, name) is None:
                raise MissingField(f"type {name} needs its member {name}", where=where)
            if name != self.type and getattr(self, name) is not None:
                raise InvalidParameter(f"type {self.type} takes no {name}", where=where)

    @property
    def mode(self) -> str:
        """none, auto, required or named."""
        if self.allowed_tools is not None:
            return self.allowed_tools.mode
        return "named" if self.type == "function" else self.type

    @property
    def names(self) -> dict[str, str]:
        """Of the functions that may be called, where it says which, with the places that name them."""
        if self.function is not None:
            return {self.function.name: "tool_choice.function.name"}
        allowed = () if self.allowed_tools is None else self.allowed_tools.tools
        return {tool.function.name: f"tool_choice.allowed_tools.tools[{at}].function.name"
                for at, tool in enumerate(allowed)}


ToolList = Annotated[list[ToolForm], Field(max_length=128)]
ToolChoice = Annotated[ChoiceForm, BeforeValidator(as_form)]


class Choosing(Protocol):
    """A tool_choice: none, auto, required or named; the functions that it names, with the places that do."""

    def check(self) -> None: ...

    @property
    def mode(self) -> str: ...

    @property
    def names(self) -> dict[str, str]: ...


class Offer:
    """The functions of a request and how they may be called. Raises InvalidParameter for what does not fit together."""

    def __init__(self, functions: Sequence[FunctionForm], choice: Choosing | None, parallel: bool | None,
                 inside: str = ".function") -> None:
        """inside: where a function stands in its tool."""
        self._forms = functions
        self._inside = inside
        if choice is not None:
            choice.check()
        self.mode = ("auto" if self._forms else "none") if choice is None else choice.mode
        self._one = parallel is False or self.mode == "named"
        self._places: dict[str, int] = {}
        for at, form in enumerate(self._forms):
            self._places.setdefault(form.name, at)
        self._allowed = {} if choice is None else choice.names
        self._check()

    def _check(self) -> None:
        for at, form in enumerate(self._forms):
            if self._places[form.name] != at:
                where = f"tools[{at}]{self._inside}.name"
                raise InvalidParameter(f"two functions are named {form.name!r}", where=where)
            kind = "object" if form.parameters is None else form.parameters.get("type", "object")
            if kind != "object":
                raise InvalidParameter(
                    "the arguments of a function are an object", where=f"tools[{at}]{self._inside}.parameters.type",
                    fix='Use "object".',
                )
        for name, where in self._allowed.items():
            if name not in self._places:
                raise InvalidParameter(f"no function is named {name!r}", where=where, fix="Name one of tools.")
        if self.mode in ("required", "named") and not self._forms:
            raise InvalidParameter("there are no tools to call", where="tool_choice", fix="Send tools.")

    @property
    def open(self) -> bool:
        """Whether anything may be called."""
        return bool(self._forms) and self.mode != "none"

    @property
    def strict(self) -> bool:
        """Whether something must be called."""
        return self.open and self.mode != "auto"

    @property
    def told(self) -> list[Tool]:
        """Those that the model is told of: all, so that a prompt does not depend on what may be called just now."""
        if not self.open:
            return []
        return [Tool(form.name, form.description or "", _parameters(form)) for form in self._forms]

    def whole(self, wanted: Wanted | None) -> Content | None:
        """What an answer that calls nothing must fit; None: anything, or there is no such answer."""
        return None if wanted is None or self.mode != "auto" else wanted.constraint()

    def check_beside(self, calls: CallFormat, thinking: Thinking | None, wanted: Wanted | None, where: str) -> None:
        """Raises InvalidParameter where an answer that must fit `wanted`, which stands at `where`, cannot be told from
        calls, or comes behind thoughts."""
        content = self.whole(wanted) if self.open else None
        if content is None:
            return
        json = isinstance(content, JsonSchema | AnyObject)
        why = (f"a {where} of this type" if not json else f"with this model a {where} that is enforced"
               if thinking is not None or not calls.apart else "")
        if why:
            raise InvalidParameter(f"{why} cannot be used beside tools", where=where,
                                   fix="Leave one out, or send tool_choice none.")

    def enforced(self, calls: CallFormat, wanted: Wanted | None = None) -> Enforced:
        """What an answer must be when something may be called; thoughts are text before the calls. wanted: what one
        that calls nothing must be."""
        callable_ = [tool for tool in self.told if not self._allowed or tool.name in self._allowed]
        places = [self._places[tool.name] for tool in callable_]
        required = self.mode != "auto"
        constraint = calls.constraint(callable_, required=required, one=self._one, whole=self.whole(wanted))
        behind = structs.replace(constraint, triggers=(calls.trigger,), text="before", whole=None)

        def place(where: str) -> str:
            if wanted is not None and where.startswith("whole"):
                return wanted.place(where.removeprefix("whole").lstrip())
            found = re.match(r"tags/(\d+)/(begin|content)\s*(.*)", where, re.DOTALL)
            if found is None:
                return "tools"
            base = f"tools[{places[int(found[1])]}]{self._inside}"
            return f"{base}.name" if found[2] == "begin" else schema_place(f"{base}.parameters", found[3])

        return Enforced(constraint, place, behind)


def _parameters(form: FunctionForm) -> str:
    """A function without parameters takes none."""
    if form.parameters is None:
        return '{"type":"object","properties":{},"additionalProperties":false}'
    return schema_text({"type": "object", **form.parameters})
