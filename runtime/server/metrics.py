"""What /metrics says: the server's own counts, and the engine's counters as of the scrape."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ..branch import Answer
from ..messages import Stats
from .replies import finish_of

SECONDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 60, 120, 300, 600)
OUTCOMES = ("stop", "length", "refused", "overloaded", "aborted", "failed")


class Metrics:
    """One registry per server, so that two in a process do not meet."""

    content_type = CONTENT_TYPE_LATEST

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._engine = _EngineCollector()
        self._registry.register(self._engine)
        self._requests = Counter("espalier_requests", "Requests by outcome.", ["outcome"], registry=self._registry)
        self._first = Histogram(
            "espalier_time_to_first_token_seconds", "From the request to its first text.", buckets=SECONDS,
            registry=self._registry,
        )
        self._whole = Histogram(
            "espalier_request_seconds", "From the request to its last token.", buckets=SECONDS, registry=self._registry
        )
        for outcome in OUTCOMES:
            self._requests.labels(outcome)

    def count(self, outcome: str) -> None:
        self._requests.labels(outcome).inc()

    def watch(self) -> Watch:
        return Watch(self._first, self._whole, self._requests)

    def render(self, stats: Stats | None) -> bytes:
        """stats None: the engine does not answer."""
        self._engine.stats = stats
        return generate_latest(self._registry)


class Watch:
    """The clock of one request."""

    def __init__(self, first: Histogram, whole: Histogram, requests: Counter) -> None:
        self._began = time.perf_counter()
        self._first: Histogram | None = first
        self._whole = whole
        self._requests = requests

    def text(self) -> None:
        if self._first is not None:
            self._first.observe(time.perf_counter() - self._began)
            self._first = None

    def finished(self, answers: Sequence[Answer]) -> None:
        """Of several choices, one that was cut makes the request's outcome."""
        self._whole.observe(time.perf_counter() - self._began)
        cut = any(finish_of(answer) == "length" for answer in answers)
        self._requests.labels("length" if cut else "stop").inc()


class _EngineCollector(Collector):
    def __init__(self) -> None:
        self.stats: Stats | None = None

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterable[Metric]:
        stats = self.stats
        yield GaugeMetricFamily("espalier_engine_up", "1 when the engine answers.", value=0 if stats is None else 1)
        if stats is None:
            return
        yield GaugeMetricFamily("espalier_requests_running", "Requests being computed.", value=stats.running)
        yield GaugeMetricFamily("espalier_requests_waiting", "Requests in the queue.", value=stats.waiting)
        yield _pages(stats)
        for name, text, value in _counters(stats):
            yield CounterMetricFamily(f"espalier_{name}", text, value=value)


def _pages(stats: Stats) -> Metric:
    pages = GaugeMetricFamily("espalier_kv_pages", "Pages of KV memory by state.", labels=["state"])
    for state, count in (("free", stats.pages_free), ("cached", stats.pages_cached), ("held", stats.pages_held)):
        pages.add_metric([state], count)
    return pages


def _counters(stats: Stats) -> tuple[tuple[str, str, float], ...]:
    return (
        ("weights_loads", "Weights that the engine has had, the first ones included.", stats.load),
        ("tokens_in", "Tokens of prompts.", stats.tokens_in),
        ("tokens_cached", "Prompt tokens reused from the tree.", stats.tokens_cached),
        ("tokens_computed", "Tokens that went through the model.", stats.tokens_computed),
        ("tokens_out", "Tokens generated.", stats.tokens_out),
        ("tokens_forced", "Generated tokens that the grammar left no choice about.", stats.tokens_forced),
        ("steps", "Steps of the engine.", stats.steps),
        ("host_seconds", "Time of steps outside the model.", stats.host_s),
        ("model_seconds", "Time of steps inside the model.", stats.model_s),
    )
