"""Secrets in the text of a script: refused by the shape of a literal, not by the name of a variable."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from contracts.recipes.pytorch import PyTorchRecipe

HEX = "0123456789abcdef" * 2 + "01234567"
HUGGING_FACE = "hf_" + "aB3dE6gH9j" * 3 + "aB3d"
AWS = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"


def refusal(text: str) -> str:
    with pytest.raises(ValidationError) as caught:
        PyTorchRecipe(script_text=text)
    (error,) = caught.value.errors()
    assert error["ctx"]["pointer"] == "/script_text"
    return error["msg"]


@pytest.mark.parametrize(
    "statement",
    [
        f"login(token='{HUGGING_FACE}')",
        f"os.environ['HF_TOKEN'] = '{HUGGING_FACE}'",
        f"# HF_TOKEN={HUGGING_FACE}",
        "key = 'AKIAIOSFODNN7EXAMPLE'",
        f"session = boto3.Session(aws_secret_access_key='{AWS}')",
        f"wandb.login(key='{HEX}')",
        f"wandb.login('{HEX}')",
        f"os.environ['WANDB_API_KEY'] = '{HEX}'",
        f"os.environ.setdefault('WANDB_API_KEY', '{HEX}')",
        f"settings = {{'api_key': '{HEX}'}}",
        f"os.system('export WANDB_API_KEY={HEX} && true')",
        f"def report(step, api_key='{HEX}'): pass",
        "self.db_password: str = 'hunter2hunter'",
    ],
)
def test_a_literal_that_looks_like_a_secret_is_refused_with_its_line_and_not_repeated(statement: str) -> None:
    told = refusal(f"import os\n\n{statement}\n")
    assert "in line 3" in told
    assert "secret_env" in told
    for secret in (HEX, HUGGING_FACE, AWS, "hunter2hunter", "AKIAIOSFODNN7EXAMPLE"):
        assert secret not in told


@pytest.mark.parametrize(
    "text",
    [
        "TOKEN=os.environ['HF_TOKEN']\n",
        "hf_token = 'HF_TOKEN_2'\nlogin(token=os.environ[hf_token])\n",
        "client = OpenAI(api_key='EMPTY', base_url='http://chat:8000/v1')\n",
        "tokenizer.pad_token = '[PAD]'\nmask_token = '<mask0>'\ntokenizer.eos_token = '<|im_end|>'\n",
        f"COMMIT = '{HEX}'\nload(revision='{HEX}')\n",
        "secret = 'arn:aws:secretsmanager:us-west-2:111122223333:secret:a1'\npassword = '/run/secrets/pw1'\n",
        "api_key = f'{first}b12345678'\nlogin()\n",
        "os.system('HF_TOKEN=$HF_TOKEN_1 python3 a.py')\n",
    ],
)
def test_names_of_secrets_and_what_only_stands_where_one_could_are_no_secrets(text: str) -> None:
    assert PyTorchRecipe(script_text=text).script_text == text


def test_a_script_that_is_too_deep_to_be_read_is_refused_as_one() -> None:
    assert "nested too deeply" in refusal("a" + "+1" * 30_000)
