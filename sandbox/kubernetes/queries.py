"""What scripts say of queries to a Prometheus."""

from __future__ import annotations

from typing import Any


class QueryError(ValueError):
    """A query that Prometheus refuses."""


class Queries:
    """What scripts say of queries, for all clusters: by a text that the query holds."""

    def __init__(self) -> None:
        self._values: dict[str, list[float]] = {}
        self._errors: dict[str, str] = {}

    def set(self, text: str, values: list[float] | None, error: str = "") -> None:
        """``values`` None and no error: the truth again."""
        self._values.pop(text, None)
        self._errors.pop(text, None)
        if error:
            self._errors[text] = error
        elif values is not None:
            self._values[text] = values

    def find(self, query: str) -> list[float] | None:
        """What a query gives by a script, the longest text first. Raises :class:`QueryError`."""
        for text in sorted({*self._values, *self._errors}, key=len, reverse=True):
            if text in query:
                if text in self._errors:
                    raise QueryError(self._errors[text])
                return self._values[text]
        return None

    def clear(self) -> None:
        self._values.clear()
        self._errors.clear()

    def report(self) -> list[dict[str, Any]]:
        return [
            *({"query": text, "values": values} for text, values in self._values.items()),
            *({"query": text, "error": error} for text, error in self._errors.items()),
        ]

    def dump(self) -> dict[str, Any]:
        return {"values": dict(self._values), "errors": dict(self._errors)}

    def load(self, dumped: dict[str, Any]) -> None:
        self._values, self._errors = dict(dumped.get("values", {})), dict(dumped.get("errors", {}))
