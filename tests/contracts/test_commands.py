"""Command lines: every word byte for byte, and nothing of a shell that is not asked for."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.commands import Engine, Severity, literal, options_of, parse

WORDS = st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30), min_size=1)


@given(WORDS)
def test_words_that_were_quoted_come_back_byte_for_byte(words: list[str]) -> None:
    assert parse(shlex.join(words)).argv == words


@given(WORDS)
def test_a_plain_command_is_read_as_a_posix_shell_reads_its_words(words: list[str]) -> None:
    text = " ".join('"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"' for word in words)
    if "$" not in text and "`" not in text and "\\\n" not in text and "\\\r\n" not in text:
        assert parse(text).argv == shlex.split(text)


@given(st.text(max_size=60))
def test_no_text_makes_the_parser_fail(text: str) -> None:
    found = parse(text)
    assert found.argv or any(each.severity is Severity.ERROR for each in found.findings)


def expanded(text: str, variables: dict[str, str]) -> str:
    """What Kubernetes makes of an argument. (k8s.io/kubernetes third_party/forked/golang/expansion: Expand)"""
    result, position = "", 0
    while position < len(text):
        if text[position] != "$" or position + 1 >= len(text):
            result += text[position]
            position += 1
        elif text[position + 1] == "$":
            result += "$"
            position += 2
        elif text[position + 1] == "(" and (end := text.find(")", position)) > 0:
            name = text[position + 2 : end]
            result += variables.get(name, f"$({name})")
            position = end + 1
        else:
            result += "$" + text[position + 1]
            position += 2
    return result


@given(st.text("$()AB x", max_size=20))
def test_kubernetes_leaves_a_literal_word_as_it_was(word: str) -> None:
    assert expanded(literal(word), {"A": "expanded", "B": "", "AB": "x"}) == word


@pytest.mark.parametrize(
    ("text", "argv"),
    [
        ("""vllm serve m --hf-overrides '{"a": "b  c"}'""", ["vllm", "serve", "m", "--hf-overrides", '{"a": "b  c"}']),
        ("""vllm serve m -O '{"level":3}'""", ["vllm", "serve", "m", "-O", '{"level":3}']),
        ("""x "it's" 'say "no"' a\\'b""", ["x", "it's", 'say "no"', "a'b"]),
        ('x "" \'\' y""', ["x", "", "", "y"]),
        ("vllm serve m \\\n  --port 8000 \\\n  --seed 1\n", ["vllm", "serve", "m", "--port", "8000", "--seed", "1"]),
        ("vllm serve m \\\r\n  --port 8000\r\n", ["vllm", "serve", "m", "--port", "8000"]),
        ("vllm serve m\n--port 8000", ["vllm", "serve", "m", "--port", "8000"]),
        ("x '$HOME' '*.txt' 'a && b' '$(HOSTNAME)'", ["x", "$HOME", "*.txt", "a && b", "$(HOSTNAME)"]),
        ("x \\$HOME \\*", ["x", "$HOME", "*"]),
        ('x "a\\\nb" "c\\d"', ["x", "ab", "c\\d"]),
    ],
)
def test_quoting_is_posix(text: str, argv: list[str]) -> None:
    found = parse(text)
    assert (found.argv, found.findings) == (argv, [])


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("cd /s3 && vllm serve m", "shell-syntax"),
        ("vllm serve m | tee log", "shell-syntax"),
        ("vllm serve m; sleep 1", "shell-syntax"),
        ("vllm serve m > log", "shell-syntax"),
        ("vllm serve m 2>&1", "shell-syntax"),
        ("vllm serve m &", "shell-syntax"),
        ("vllm serve `cat name`", "shell-syntax"),
        ("vllm serve $(cat name)", "shell-syntax"),
        ("vllm serve $MODEL", "shell-syntax"),
        ('vllm serve "$MODEL"', "shell-syntax"),
        ("vllm serve ${MODEL}", "shell-syntax"),
        ("vllm serve /s3/models/*", "shell-syntax"),
        ("vllm serve /s3/model[12]", "shell-syntax"),
        ("vllm serve m # fast", "shell-syntax"),
        ("exec vllm serve m", "shell-syntax"),
        ("HF_TOKEN=x vllm serve m", "shell-assignment"),
        ("vllm serve m\nsleep 1", "shell-line-break"),
        ("vllm serve 'm", "unfinished-quote"),
        ('vllm serve "m', "unfinished-quote"),
        ("vllm serve m \\", "unfinished-quote"),
        ("", "empty"),
        (" \n", "empty"),
    ],
)
def test_what_a_shell_would_do_is_told_and_not_guessed(text: str, rule: str) -> None:
    found = parse(text)
    assert rule in [each.rule for each in found.findings if each.severity is Severity.ERROR]
    assert all(each.remedy for each in found.findings if each.rule != "empty")


def test_a_variables_value_is_not_repeated() -> None:
    (finding,) = parse("HF_TOKEN=secret vllm serve m").findings
    assert "secret" not in (finding.text or "")


def test_with_exec_every_character_is_meant_as_it_stands() -> None:
    found = parse("vllm serve $MODEL && x", None, "exec")
    assert (found.argv, found.findings) == (["vllm", "serve", "$MODEL", "&&", "x"], [])


def test_with_sh_the_text_goes_to_a_shell_and_the_servers_words_are_found_in_it() -> None:
    text = "A=1 B=2 prepare /s3; exec vllm serve m --port 8001 2>&1 >>/tmp/log|tee x && echo done"
    found = parse(text, None, "sh")
    assert found.argv == ["sh", "-c", text]
    assert (found.words, found.engine) == (["exec", "vllm", "serve", "m", "--port", "8001"], Engine.VLLM)
    assert (found.model, found.findings) == ("m", [])


def test_a_shell_that_stays_in_front_of_the_server_is_told() -> None:
    (finding,) = parse("cd /s3 && vllm serve m", None, "sh").findings
    assert (finding.rule, finding.severity) == ("sh-signals", Severity.INFO)


@pytest.mark.parametrize(
    ("text", "engine", "model"),
    [
        ("vllm serve Qwen/Qwen3-0.6B", Engine.VLLM, "Qwen/Qwen3-0.6B"),
        ("vllm serve --port 8000 --trust-remote-code Qwen/Qwen3-0.6B", Engine.VLLM, "Qwen/Qwen3-0.6B"),
        ("/usr/bin/vllm serve --model=/s3/x", Engine.VLLM, "/s3/x"),
        ("python3 -m vllm.entrypoints.openai.api_server --model m", Engine.VLLM, "m"),
        ("python -m sglang.launch_server --model-path m --tp 2", Engine.SGLANG, "m"),
        ("python3.12 -m sglang.launch_server --model m", Engine.SGLANG, "m"),
        ("sglang serve --model-path m", Engine.SGLANG, "m"),
        ("ollama serve", Engine.CUSTOM, None),
        ("python serve.py --model m", Engine.CUSTOM, "m"),
    ],
)
def test_engine_and_model_are_told_by_the_command(text: str, engine: Engine, model: str | None) -> None:
    found = parse(text)
    assert (found.engine, found.model) == (engine, model)


def test_options_are_read_in_all_their_forms() -> None:
    found = parse("vllm serve m -tp 2 --pipeline_parallel_size=4 --served-model-name a b --enforce-eager --seed -1")
    options, positional = options_of(found)
    assert [(each.name, each.value) for each in options] == [
        ("-tp", "2"),
        ("--pipeline-parallel-size", "4"),
        ("--served-model-name", "a"),
        ("--enforce-eager", None),
        ("--seed", "-1"),
    ]
    assert (positional, found.served_names) == ([2], ["a", "b"])
