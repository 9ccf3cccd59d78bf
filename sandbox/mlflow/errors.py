"""How MLflow refuses."""

from __future__ import annotations

INVALID = "INVALID_PARAMETER_VALUE"
ABSENT = "RESOURCE_DOES_NOT_EXIST"
EXISTS = "RESOURCE_ALREADY_EXISTS"
BAD_REQUEST = "BAD_REQUEST"
_STATUS = {ABSENT: 404}


class MlflowError(Exception):
    """Answered as ``{"error_code": …, "message": …}``."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message

    @property
    def status(self) -> int:
        return _STATUS.get(self.code, 400)


def invalid(message: str) -> MlflowError:
    return MlflowError(INVALID, message)
