"""Nothing that looks like a secret leaves a process in a line or a span."""

from __future__ import annotations

import base64
import io
import json
import logging
import string
from collections.abc import Callable

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Status, StatusCode

from contracts.sealing import new_key, parse_key, seal
from telemetry.export import Scrubbed
from telemetry.logs import Bind, JsonLines, TextLines
from telemetry.redaction import scrub

ALPHANUMERIC = string.ascii_letters + string.digits


def random_text(alphabet: str, least: int, most: int) -> st.SearchStrategy[str]:
    return st.text(alphabet, min_size=least, max_size=most)


@st.composite
def secrets(draw: st.DrawFn) -> tuple[str, str]:
    """A text as it may stand in a message, and the part of it that nobody may see."""
    word = "q" + draw(random_text(ALPHANUMERIC, 32, 48))  # behind ``token``, a number is how many of them
    upper = draw(random_text(string.ascii_uppercase + string.digits, 16, 16))
    hexadecimal = draw(random_text("0123456789abcdef", 64, 64))
    body = base64.b64encode(draw(st.binary(min_size=200, max_size=300))).decode()
    lines = "\n".join(body[at : at + 64] for at in range(0, len(body), 64))
    form: Callable[[], tuple[str, str]] = draw(
        st.sampled_from(
            [
                lambda: (f"isk_{word}", word),
                lambda: (f"session iss_{word} has ended", word),
                lambda: (f"/signin?ticket=ist_{word}", word),
                lambda: (f"hf_{word}", word),
                lambda: (f"Authorization: Bearer {word}", word),
                lambda: (f"{{'Authorization': 'Bearer {word}'}}", word),
                lambda: (f'"authorization": "Basic {word}=="', word),
                lambda: (f"k8s-aws-v1.{word}", word),
                lambda: (f"AKIA{upper}", upper),
                lambda: (f"https://b.s3.amazonaws.com/k?X-Amz-Signature={hexadecimal}&X-Amz-Expires=60", hexadecimal),
                lambda: (f"X-Amz-Security-Token={word}%2F{word}", word),
                lambda: (f"AWS4-HMAC-SHA256 Credential=x, SignedHeaders=host, Signature={hexadecimal}", hexadecimal),
                lambda: (f"aws_secret_access_key={word}", word),
                lambda: (f'{{"password": "{word}"}}', word),
                lambda: (f"--token {word}", word),
                lambda: (f"postgresql://temporal:{word}@db:5432/t", word),
                lambda: (f"-----BEGIN RSA PRIVATE KEY-----\n{lines}\n-----END RSA PRIVATE KEY-----", body[:60]),
                lambda: (f"-----BEGIN PRIVATE KEY-----\\n{body}\\n-----END PRIVATE KEY-----", body[:60]),
                lambda: (f"sealed {seal(parse_key(new_key().encode()), word, 'a')}", word),
            ]
        )
    )
    return form()


around = st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), max_size=40).map(lambda text: f"{text} ")


def record_of(message: str, *arguments: object, error: BaseException | None = None) -> logging.LogRecord:
    exception = (type(error), error, error.__traceback__) if error is not None else None
    return logging.LogRecord("lib", logging.WARNING, "f.py", 1, message, arguments, exception)


def written(record: logging.LogRecord, formatter: logging.Formatter) -> str:
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.addFilter(Bind(lambda: {"operation": "create-cluster/demo"}))
    handler.setFormatter(formatter)
    handler.handle(record)
    return out.getvalue()


@given(around, secrets(), around)
def test_no_secret_is_left_in_a_text(before: str, secret: tuple[str, str], behind: str) -> None:
    text, hidden = secret
    assume(hidden not in before + behind)
    assert hidden not in scrub(f"{before}{text} {behind}")


@pytest.mark.parametrize("formatter", [TextLines(), JsonLines()])
@given(secret=secrets(), place=st.sampled_from(["message", "argument", "mapping", "exception", "cause"]))
def test_no_secret_is_left_in_a_line(formatter: logging.Formatter, secret: tuple[str, str], place: str) -> None:
    text, hidden = secret
    try:
        try:
            raise ValueError(text if place == "cause" else "a")
        except ValueError as cause:
            raise RuntimeError(text if place == "exception" else "b") from cause
    except RuntimeError as error:
        failed = error
    record = record_of(
        f"refused {text.replace('%', '%%')}: %s %s" if place == "message" else "refused: %s %s",
        text if place == "argument" else "x",
        {"headers": text} if place == "mapping" else {},
        error=failed,
    )
    line = written(record, formatter)
    assert hidden not in line
    assert "refused" in line
    assert "RuntimeError" in line


@given(secrets())
def test_no_secret_is_left_in_a_span(secret: tuple[str, str]) -> None:
    text, hidden = secret
    kept = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(Scrubbed(kept)))
    with provider.get_tracer("t").start_as_current_span(f"GET {text}", attributes={"url.path": text}) as span:
        span.set_attribute("url.query", text)
        span.record_exception(ValueError(text))
        span.set_status(Status(StatusCode.ERROR, text))
    (found,) = kept.get_finished_spans()
    assert hidden not in found.to_json()
    assert found.end_time is not None
    assert "url.query" not in (found.attributes or {})


@pytest.mark.parametrize(
    "text",
    [
        "operation create-cluster/demo run 01a22e1c-e7aa-7396-b483-df06f88380f7 attempt 2",
        "arn:aws:sagemaker:us-west-2:123456789012:cluster/ml-demo is InService after 21 minutes",
        'GET /api/v1/clusters/demo/instance-groups 200 1.2ms by="launcher"',
        "basic checks passed; authorization is on; next_page_token=null; tokens 4096",
    ],
)
def test_what_is_no_secret_is_left_as_it_is(text: str) -> None:
    assert scrub(text) == text


def test_a_json_line_is_one_object_in_one_line_and_says_for_whom() -> None:
    line = written(record_of("one\ntwo"), JsonLines())
    assert line.count("\n") == 1
    found = json.loads(line)
    assert found["message"] == "one\ntwo"
    assert found["operation"] == "create-cluster/demo"
    assert "cluster" not in found  # not known, so not said
