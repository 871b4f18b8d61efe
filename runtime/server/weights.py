"""POST /admin/weights: the model goes on with the weights of another file in the operator's folder.

There is no such route unless the operator names the folder and a key. A request names a file in it and nothing else.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from ..errors import InvalidParameter
from .body import Bodies, parse
from .complaints import Complaints
from .contract import ChatRuntime
from .forms import Form, names_of
from .gate import Gate
from .settings import Settings


class WeightsForm(Form):
    """running: what happens to requests that have begun."""

    file: Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,200}\.gguf$")]
    running: Literal["finish", "end"] | None = None


class LoadedWeights(msgspec.Struct, frozen=True):
    """load: how many weights the engine has had, the first ones included."""

    file: str
    load: int
    object: str = "weights"


COMPLAINTS = Complaints({}, top=names_of(WeightsForm))


class WeightsPage:
    def __init__(self, runtime: ChatRuntime, settings: Settings, gate: Gate, folder: Path) -> None:
        self._runtime = runtime
        self._bodies = Bodies(settings)
        self._gate = gate
        self._folder = folder

    async def load(self, request: Request) -> Response:
        """Answers when the new weights are used. Raises WeightsError, Overloaded while others are being loaded."""
        form = COMPLAINTS.read(WeightsForm, parse(await self._bodies.read(request)))
        path = await asyncio.to_thread(self._place, form.file)
        loading = self._runtime.load_weights(path, end=form.running == "end")
        load = await self._gate.attend(loading, request.receive)
        return Response(msgspec.json.encode(LoadedWeights(form.file, load)), media_type="application/json")

    def _place(self, name: str) -> Path:
        """A regular file that lies in the folder itself, and not elsewhere behind a link."""
        path = (self._folder / name).resolve()
        if not path.is_file() or path.parent != self._folder.resolve():
            raise InvalidParameter("there is no such file in the folder of weights", where="file")
        return path
