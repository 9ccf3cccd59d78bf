"""Codec keys that lie about encrypted with a KMS key."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
from moto import mock_aws

from temporal.faults import ConnectionFaultError
from temporal.keys import key_ring, main, read_lines
from temporal.settings import ConnectionSettings


@pytest.fixture
def kms_key(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The ARN of a KMS key, which settings from the environment name."""
    for name in ("AWS_ENDPOINT_URL", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    with mock_aws():
        arn = boto3.client("kms", region_name="eu-west-1").create_key()["KeyMetadata"]["Arn"]
        monkeypatch.setenv("INSTANTSTART_CODEC_KMS_KEY", arn)
        yield arn


def test_the_file_alone_is_worthless_and_kms_opens_it(kms_key: str, tmp_path: Path) -> None:
    file = tmp_path / "codec.keys"
    assert main(["add", str(file)]) == 0
    assert main(["add", str(file)]) == 0
    ring = key_ring(ConnectionSettings(codec_key_file=file))
    assert len({key.id for key in ring.keys}) == 2
    kept = b"".join(base64.b64decode(line) for line in read_lines(file))
    assert not any(key.secret in kept for key in ring.keys)


def test_an_order_that_was_changed_keeps_what_kms_has_encrypted(kms_key: str, tmp_path: Path) -> None:
    file = tmp_path / "codec.keys"
    main(["add", str(file)])
    main(["add", str(file)])
    old, new = (key.id for key in key_ring(ConnectionSettings(codec_key_file=file)).keys)
    lines = read_lines(file)
    assert main(["promote", str(file), new]) == 0
    assert read_lines(file) == lines[::-1]
    assert main(["remove", str(file), old]) == 0
    assert [key.id for key in key_ring(ConnectionSettings(codec_key_file=file)).keys] == [new]


def test_what_was_encrypted_for_another_purpose_is_no_codec_key(kms_key: str, tmp_path: Path) -> None:
    blob = boto3.client("kms", region_name="eu-west-1").encrypt(KeyId=kms_key, Plaintext=b"k" * 32)["CiphertextBlob"]
    file = tmp_path / "codec.keys"
    file.write_text(base64.b64encode(blob).decode())
    with pytest.raises(ConnectionFaultError, match="does not decrypt"):
        key_ring(ConnectionSettings(codec_key_file=file))


def test_a_kms_key_without_a_file_is_a_mistake(kms_key: str) -> None:
    with pytest.raises(ConnectionFaultError, match=r"temporal\.keys add"):
        key_ring(ConnectionSettings(codec_key_file=None))


def test_a_kms_key_that_is_not_there_is_named(kms_key: str, tmp_path: Path) -> None:
    file = tmp_path / "codec.keys"
    main(["add", str(file)])
    gone = kms_key.rpartition("/")[0] + "/00000000-0000-0000-0000-000000000000"
    with pytest.raises(ConnectionFaultError, match="INSTANTSTART_CODEC_KMS_KEY"):
        key_ring(ConnectionSettings(codec_key_file=file, codec_kms_key=gone))


def test_a_key_whose_region_nobody_tells_is_a_fault_that_says_so(
    kms_key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "codec.keys"
    main(["add", str(file)])
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    with pytest.raises(ConnectionFaultError, match="as an ARN"):
        key_ring(ConnectionSettings(codec_key_file=file, codec_kms_key="alias/instantstart"))
