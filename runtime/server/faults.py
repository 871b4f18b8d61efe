"""What happens when a request fails: it is told, counted and, when it should not have happened, logged."""

from __future__ import annotations

import logging

from .errors import Problem, problem_of
from .metrics import Metrics

LOG = logging.getLogger("espalier.server")


class Faults:
    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def tell(self, cause: BaseException, request_id: str) -> Problem:
        """The log gets the details of internal errors only: what a caller did wrong may quote the caller's text."""
        problem = problem_of(cause, request_id)
        self._metrics.count(problem.outcome)
        if problem.status == 500:
            LOG.error("request %s failed", request_id, exc_info=cause)
        return problem

    def gone(self) -> None:
        """The client left."""
        self._metrics.count("aborted")
