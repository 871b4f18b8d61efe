"""What the forms of all requests are made of: strict, closed, frozen; null means unset in every optional field."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from ..checks import MOST_BIASES, MOST_REPETITION
from ..errors import InvalidParameter

MOST_TOKENS = 2**31 - 1
MOST_CHOICES = 32
MOST_STOPS = 16


class Form(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def names_of(form: type[Form]) -> tuple[str, ...]:
    """The fields of a form as they are written in a body, without those that may only be null."""
    fields = form.model_fields.items()
    return tuple(sorted(field.alias or name for name, field in fields if field.annotation is not type(None)))


def _as_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _as_float(value: object) -> object:
    return float(value) if isinstance(value, Decimal) else value


def _of_type(kind: type) -> BeforeValidator:
    """Literals compare by value, and to Python 0 is False and 1 is True: what is of another type equals no literal."""
    return BeforeValidator(lambda value: value if value is None or type(value) is kind else [value])


# JSON's false and 1, and nothing that equals them. A bare Literal of either takes the other (a test holds that).
Off = Annotated[Literal[False], _of_type(bool)]
One = Annotated[Literal[1], _of_type(int)]
Fraction = Annotated[float, BeforeValidator(_as_float), Field(allow_inf_nan=False)]
StopString = Annotated[str, Field(min_length=1, max_length=256)]
StopId = Annotated[int, Field(ge=0, le=MOST_TOKENS)]
TokenId = Annotated[str, Field(pattern=r"^(0|[1-9][0-9]{0,9})$")]
Bias = Annotated[Fraction, Field(ge=-100, le=100)]
Name = Annotated[str, Field(max_length=512)]
FunctionName = Annotated[str, Field(pattern=r"^[a-zA-Z0-9_.-]{1,64}$")]


class StreamOptions(Form):
    include_usage: bool | None = None
    include_obfuscation: Off | None = None


class SamplingForm(Form):
    """The fields of every request that generates. `user` has no effect."""

    model: str
    max_tokens: Annotated[int, Field(ge=1, le=MOST_TOKENS)] | None = None
    temperature: Annotated[Fraction, Field(ge=0, le=2)] | None = None
    top_p: Annotated[Fraction, Field(ge=0, le=1)] | None = None
    top_k: Annotated[int, Field(ge=0, le=MOST_TOKENS)] | None = None
    min_p: Annotated[Fraction, Field(ge=0, le=1)] | None = None
    seed: Annotated[int, Field(ge=-(2**63), lt=2**63)] | None = None
    stop: Annotated[list[StopString], BeforeValidator(_as_list), Field(max_length=MOST_STOPS)] | None = None
    stop_token_ids: Annotated[list[StopId], Field(max_length=MOST_STOPS)] | None = None
    min_tokens: Annotated[int, Field(ge=0, le=MOST_TOKENS)] | None = None
    ignore_eos: bool | None = None
    n: Annotated[int, Field(ge=1, le=MOST_CHOICES)] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    user: Name | None = None
    cache_salt: Annotated[str, Field(min_length=1, max_length=512)] | None = None
    frequency_penalty: Annotated[Fraction, Field(ge=-2, le=2)] | None = None
    presence_penalty: Annotated[Fraction, Field(ge=-2, le=2)] | None = None
    repetition_penalty: Annotated[Fraction, Field(gt=0, le=MOST_REPETITION)] | None = None
    logit_bias: Annotated[dict[TokenId, Bias], Field(max_length=MOST_BIASES)] | None = None

    def check_stream(self) -> None:
        """Raises InvalidParameter."""
        if self.stream_options is not None and not self.stream:
            raise InvalidParameter("stream_options needs stream: true", where="stream_options")

    def check_least(self, most: int | None) -> None:
        """most: tokens that an answer may have, where the request says it. Raises InvalidParameter."""
        if most is not None and (self.min_tokens or 0) > most:
            raise InvalidParameter(
                f"min_tokens is {self.min_tokens} and an answer has at most {most} tokens", where="min_tokens",
                fix="Lower it, or raise max_tokens.",
            )


def least_beside(what: str) -> InvalidParameter:
    return InvalidParameter(
        f"min_tokens cannot be used beside {what}, which says where an answer ends", where="min_tokens",
        fix="Leave one out.",
    )
