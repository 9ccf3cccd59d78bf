"""Encryption of payloads: what is told apart, what is given back, what is refused."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from temporalio.api.common.v1 import Payload
from temporalio.api.failure.v1 import Failure
from temporalio.exceptions import ApplicationError

from contracts.operation import Phase, Progress
from contracts.problem import ProblemCode
from temporal.codec import ENCODING, EncryptionCodec, UndecodableError
from temporal.converter import data_converter
from temporal.keys import KEY_ID, Key, KeyRing

OLD, NEW = Key(b"o" * 32), Key(b"n" * 32)
MARKER = "nobody-may-read-this"

payloads = st.builds(
    Payload,
    metadata=st.dictionaries(st.text(max_size=20), st.binary(max_size=20), max_size=3),
    data=st.binary(max_size=200),
).filter(lambda payload: payload.metadata.get("encoding") != ENCODING)


@given(st.lists(payloads, max_size=4))
async def test_what_is_encrypted_comes_back_as_it_was(given: list[Payload]) -> None:
    codec = EncryptionCodec(KeyRing([NEW, OLD]))
    assert await codec.decode(await codec.encode(given)) == given


@given(payloads)
async def test_a_payload_that_was_not_encrypted_is_passed_on(given: Payload) -> None:
    assert await EncryptionCodec(KeyRing([NEW])).decode([given]) == [given]
    assert await EncryptionCodec(KeyRing()).encode([given]) == [given]


async def test_each_key_of_a_ring_decrypts_and_the_first_encrypts() -> None:
    plain = Payload(data=b"x")
    (by_old,) = await EncryptionCodec(KeyRing([OLD])).encode([plain])
    (by_new,) = await EncryptionCodec(KeyRing([NEW, OLD])).encode([plain])
    assert by_old.metadata[KEY_ID].decode() == OLD.id
    assert by_new.metadata[KEY_ID].decode() == NEW.id
    assert await EncryptionCodec(KeyRing([NEW, OLD])).decode([by_old, by_new]) == [plain, plain]


async def test_the_same_payload_never_looks_the_same() -> None:
    codec = EncryptionCodec(KeyRing([NEW]))
    first, second = await codec.encode([Payload(data=b"x")] * 2)
    assert first.data != second.data


@pytest.mark.parametrize("ring", [KeyRing(), KeyRing([NEW])])
async def test_a_missing_key_is_named(ring: KeyRing) -> None:
    (encrypted,) = await EncryptionCodec(KeyRing([OLD])).encode([Payload(data=b"x")])
    with pytest.raises(UndecodableError, match=OLD.id) as refused:
        await EncryptionCodec(ring).decode([encrypted])
    assert refused.value.key_id == OLD.id


@given(st.integers(min_value=0), st.integers(min_value=1, max_value=255))
async def test_a_changed_byte_is_noticed(position: int, flip: int) -> None:
    codec = EncryptionCodec(KeyRing([NEW]))
    (encrypted,) = await codec.encode([Payload(data=b"some text")])
    data = bytearray(encrypted.data)
    data[position % len(data)] ^= flip
    with pytest.raises(UndecodableError, match="was changed"):
        await codec.decode([Payload(metadata=encrypted.metadata, data=bytes(data))])


async def test_a_payload_cannot_be_passed_off_as_another_keys() -> None:
    codec = EncryptionCodec(KeyRing([NEW, OLD]))
    (encrypted,) = await codec.encode([Payload(data=b"x")])
    with pytest.raises(UndecodableError):
        await codec.decode([Payload(metadata={**encrypted.metadata, KEY_ID: OLD.id.encode()}, data=encrypted.data)])


async def test_models_keep_their_types_and_show_nothing() -> None:
    converter = data_converter(KeyRing([NEW]))
    progress = Progress(phase=Phase.RUNNING, plan_hash=MARKER, updated_at=datetime.now(UTC))
    sent = await converter.encode([progress])
    assert MARKER.encode() not in sent[0].SerializeToString()
    assert await converter.decode(sent, [Progress]) == [progress]


async def test_a_failure_shows_its_type_alone() -> None:
    converter = data_converter(KeyRing([NEW]))
    failure = Failure()
    error = ApplicationError(MARKER, {"detail": MARKER}, type=ProblemCode.QUOTA)
    await converter.encode_failure(error, failure)
    assert MARKER.encode() not in failure.SerializeToString()
    assert failure.application_failure_info.type == ProblemCode.QUOTA
    again = await converter.decode_failure(failure)
    assert isinstance(again, ApplicationError)
    assert (again.message, again.details) == (MARKER, ({"detail": MARKER},))


async def test_a_failure_from_before_encryption_is_read() -> None:
    failure = Failure()
    await data_converter(KeyRing()).encode_failure(ApplicationError("plain", type="t"), failure)
    again = await data_converter(KeyRing([NEW])).decode_failure(failure)
    assert isinstance(again, ApplicationError)
    assert again.message == "plain"
