"""Law 8 through the whole runtime: two salts, or two adapters, share no page and learn nothing of each other."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from espalier.runtime.branch import GenerateSpec, Text
from espalier.runtime.config import EngineConfig
from espalier.runtime.engine import Engine
from espalier.runtime.link import ThreadLink
from espalier.runtime.radix_node import Namespace
from espalier.runtime.runtime import Runtime

from .asking import opened, read

PROMPT = "the name of abc, and a prompt of several pages " * 3
TENANTS = (Namespace(), Namespace("a"), Namespace("b"), Namespace("", "a"), Namespace("a", "a"))


@pytest.fixture
def runtime() -> Iterator[Runtime]:
    with opened(EngineConfig(page=4, pages=1024, step_tokens=32, max_rows=16)) as runtime:
        yield runtime


async def visit(runtime: Runtime, tenant: Namespace) -> tuple[int, str, tuple[int, ...], tuple[float, ...]]:
    """Tokens that a generation found in the tree and why it found no more; what it said; scores of a choice."""
    session = runtime.session(tenant.salt, tenant.adapter)
    branch = session.branch()
    session.extend(branch, [Text(PROMPT)])
    (twin,) = session.fork(branch, 1)
    answer = (await read(session, branch, GenerateSpec(max_tokens=20, temperature=0.0, logprobs=1)))[1]
    scores = await session.choose(twin, ["abc", "x-"])
    session.close()
    return answer.usage.cached, answer.usage.miss, answer.tokens, scores.totals


def owners(runtime: Runtime) -> dict[Namespace, set[int]]:
    link = runtime.link
    assert isinstance(link, ThreadLink)
    engine: Engine = link._engine
    pages: dict[Namespace, set[int]] = {}
    for node in engine.memory.tree.nodes():
        pages.setdefault(node.namespace, set()).update(node.pages)
    return pages


@pytest.mark.parametrize("at_once", [True, False])
def test_tenants_share_no_page_and_find_nothing_of_each_other(runtime: Runtime, at_once: bool) -> None:
    async def all_of_them() -> list[tuple[int, str, tuple[int, ...], tuple[float, ...]]]:
        visits = [visit(runtime, tenant) for tenant in TENANTS]
        return list(await asyncio.gather(*visits)) if at_once else [await one for one in visits]

    first = asyncio.run(all_of_them())
    pages = owners(runtime)
    assert set(pages) == set(TENANTS)
    assert sum(map(len, pages.values())) == len(set().union(*pages.values()))
    for tenant, (cached, _, tokens, scores) in zip(TENANTS, first, strict=True):
        # a prompt's own fork may have computed it first; one who comes first alone finds nothing
        assert (tokens, scores) == first[0][2:], tenant
        assert cached in (0, len(runtime.tokenizer.encode(PROMPT)) - 1)
    assert all(cached for cached, *_ in asyncio.run(all_of_them()))


def test_the_first_of_a_tenant_is_told_never_seen(runtime: Runtime) -> None:
    """Also why a match ended does not tell what another tenant has asked."""

    async def alone(tenant: Namespace) -> tuple[int, str]:
        session = runtime.session(tenant.salt, tenant.adapter)
        branch = session.branch()
        session.extend(branch, [Text(PROMPT)])
        answer = (await read(session, branch, GenerateSpec(max_tokens=1, temperature=0.0)))[1]
        session.close()
        return answer.usage.cached, answer.usage.miss

    for tenant in TENANTS:
        assert asyncio.run(alone(tenant)) == (0, "never seen"), tenant
        assert asyncio.run(alone(tenant))[0] > 0


def test_a_branch_of_another_session_is_not_known(runtime: Runtime) -> None:
    mine, other = runtime.session("a"), runtime.session("b")
    branch = mine.branch()
    for call in (other.text, other.tokens, lambda branch: other.fork(branch, 1)):
        with pytest.raises(Exception, match="is not open in this session"):
            call(branch)
    other.release(branch)
    mine.extend(branch, [Text("x")])
    assert mine.text(branch) == "x"
    mine.close()
    other.close()
