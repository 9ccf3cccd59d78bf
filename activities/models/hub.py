"""The Hugging Face Hub as the platform asks it: a revision's commit, its files, and whether they may be read.

https://huggingface.co/docs/hub/api . What its errors mean is as ``huggingface_hub.utils.hf_raise_for_status`` reads
them: the header ``X-Error-Code`` says more than the status.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from urllib.parse import quote

import httpx

from contracts.models import DownloadSpec, RepositoryFound, RepositoryType
from contracts.problem import FieldError, ProblemCode

SECONDS = httpx.Timeout(10.0, connect=5.0)
MOST_PAGES = 100
"""Of a thousand files each: larger ones are left to the Job, which has more time."""


class Refusal(StrEnum):
    """What the Hub's refusal is about."""

    GATED = "gated"
    HIDDEN = "hidden"
    """Not there, or private: the Hub does not tell them apart."""
    TOKEN = "token"
    """The token is not known, or has expired."""
    FORBIDDEN = "forbidden"
    REVISION = "revision"
    THROTTLED = "throttled"
    UNREACHABLE = "unreachable"


class HubError(Exception):
    """The Hub refused, or did not answer."""

    def __init__(self, refusal: Refusal, detail: str) -> None:
        super().__init__(detail)
        self.refusal = refusal


@dataclass(frozen=True)
class RemoteFile:
    path: str
    size: int
    """Bytes."""


class Hub:
    """One endpoint with one token, or none. Close it after use."""

    def __init__(self, endpoint: str, token: str | None) -> None:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._http = httpx.Client(headers=headers, timeout=SECONDS, follow_redirects=True)
        self._endpoint, self._token = endpoint.rstrip("/"), token

    def __enter__(self) -> Hub:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def commit(self, spec: DownloadSpec) -> str:
        """The commit that the revision is now. Raises HubError."""
        answer = self._get(f"{self._api(spec)}/revision/{quote(spec.revision, safe='')}")
        return str(answer.json()["sha"])

    def files(self, spec: DownloadSpec, commit: str) -> list[RemoteFile] | None:
        """The files that are asked for, by path; None where there are too many to list. Raises HubError."""
        url: str | None = f"{self._api(spec)}/tree/{commit}?recursive=true"
        found: list[RemoteFile] = []
        for _ in range(MOST_PAGES):
            assert url is not None
            answer = self._get(url)
            found += [
                RemoteFile(each["path"], each["size"])
                for each in answer.json()
                if each["type"] == "file" and selected(each["path"], spec)
            ]
            url = answer.links.get("next", {}).get("url")
            if url is None:
                return sorted(found, key=lambda each: each.path)
        return None

    def check_access(self, spec: DownloadSpec, commit: str, path: str) -> None:
        """Whether a file may be read: the metadata of gated repositories is public. Raises HubError."""
        kind = "datasets/" if spec.repository_type is RepositoryType.DATASET else ""
        url = f"{self._endpoint}/{kind}{spec.repository}/resolve/{commit}/{quote(path)}"
        try:
            # Not followed: where large files are, another host answers.
            answer = self._http.head(url, follow_redirects=False)
        except httpx.HTTPError as error:
            raise HubError(Refusal.UNREACHABLE, f"{self._endpoint}: {type(error).__name__}") from error
        self._check(answer)

    def _api(self, spec: DownloadSpec) -> str:
        return f"{self._endpoint}/api/{spec.repository_type.value}s/{spec.repository}"

    def _get(self, url: str) -> httpx.Response:
        try:
            answer = self._http.get(url)
        except httpx.HTTPError as error:
            raise HubError(Refusal.UNREACHABLE, f"{self._endpoint}: {type(error).__name__}") from error
        self._check(answer)
        return answer

    def _check(self, answer: httpx.Response) -> None:
        status, code = answer.status_code, answer.headers.get("X-Error-Code", "")
        if status < 400:
            return
        message = answer.headers.get("X-Error-Message") or f"HTTP {status}"
        raise HubError(self._refusal(status, code, message), message)

    def _refusal(self, status: int, code: str, message: str) -> Refusal:
        if code == "GatedRepo":
            return Refusal.GATED
        if code == "RevisionNotFound":
            return Refusal.REVISION
        if status == 429:
            return Refusal.THROTTLED
        if status >= 500:
            return Refusal.UNREACHABLE
        if status == 401 and self._token and code != "RepoNotFound":
            return Refusal.TOKEN
        if status in (401, 404) or code == "RepoNotFound":
            return Refusal.HIDDEN
        return Refusal.FORBIDDEN


def look_up(hub: Hub, spec: DownloadSpec) -> RepositoryFound:
    """What there is to download: commit, files and bytes. Raises HubError."""
    commit = hub.commit(spec)
    files = hub.files(spec, commit)
    if files is None:
        return RepositoryFound(commit=commit)
    if files:
        hub.check_access(spec, commit, min(files, key=lambda each: each.size).path)
    return RepositoryFound(
        commit=commit,
        files=len(files),
        size=sum(each.size for each in files),
        largest=max((each.size for each in files), default=0),
    )


def selected(path: str, spec: DownloadSpec) -> bool:
    """Whether a file is asked for. Globs as the Hub's own tools take them: a folder means all that is in it."""

    def fits(patterns: list[str]) -> bool:
        return any(fnmatchcase(path, f"{each}*" if each.endswith("/") else each) for each in patterns)

    return (not spec.include or fits(spec.include)) and not fits(spec.exclude)


def explain(error: HubError, spec: DownloadSpec, endpoint: str) -> FieldError:
    """The refusal as a fault of the input, with what to do about it."""
    page = f"{endpoint.rstrip('/')}/{'datasets/' if spec.repository_type is RepositoryType.DATASET else ''}"
    page += spec.repository
    named, name = spec.credential, spec.repository
    store = "store a token that may read it (PUT …/credentials/NAME), and name it as credential"
    match error.refusal:
        case Refusal.GATED:
            field, code = "/credential", ProblemCode.DENIED
            by = f"the account of credential {named} has not been admitted" if named else "no credential was named"
            detail = f"{name} is gated, and {by}"
            accept = f"Accept its terms at {page} with the account of the token"
            remedy = f"{accept}, then send this again." if named else f"{accept}, {store}."
        case Refusal.HIDDEN:
            field, code = "/repository", ProblemCode.NOT_FOUND
            unseen = f"the token of credential {named} may not see it" if named else "it is private"
            detail = f"the Hub shows no {spec.repository_type.value} {name}: there is none, or {unseen}"
            remedy = f"Check name and type. For a private one, {store}."
        case Refusal.TOKEN:
            field, code = "/credential", ProblemCode.CREDENTIALS
            detail = f"the Hub does not accept the token of credential {named}: {error}"
            remedy = "Store a token that is valid under the name (PUT …/credentials/NAME)."
        case Refusal.FORBIDDEN:
            field, code = "/credential", ProblemCode.DENIED
            detail = f"the Hub does not let {name} be read: {error}"
            remedy = f"Give the token read permission for it, or {store}."
        case Refusal.REVISION:
            field, code = "/revision", ProblemCode.NOT_FOUND
            detail, remedy = f"{name} has no revision {spec.revision}", f"Choose a branch, tag or commit of {page}."
        case Refusal.THROTTLED:
            field, code = "/repository", ProblemCode.THROTTLED
            detail = "the Hub answers too many requests from here with 429"
            remedy = "Try again in some minutes; with a credential the Hub allows more."
        case Refusal.UNREACHABLE:
            field, code = "/repository", ProblemCode.UNAVAILABLE
            detail, remedy = f"the Hub does not answer: {error}", "Try again when it does."
    return FieldError(field=field, detail=detail, remedy=remedy, code=code)
