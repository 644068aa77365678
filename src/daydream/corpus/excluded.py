"""Repositories that no training or evaluation corpus may hold: they are held out for benchmarks.

The check has no option that turns it off. Names compare without regard to case.
"""

from collections.abc import Iterable
from typing import Final

EXCLUDED: Final = (
    "calcom/cal.com",
    "discourse/discourse",
    "getsentry/sentry",
    "grafana/grafana",
    "keycloak/keycloak",
)
"""The repositories of the public review benchmark."""


def excluded_among(repos: Iterable[str]) -> list[str]:
    """Return which of ``repos`` are held out, sorted, each as it was written."""
    return sorted({repo for repo in repos if repo.strip().casefold() in EXCLUDED})
