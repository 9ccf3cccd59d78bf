"""What our payloads are on the wire."""

from __future__ import annotations

from dataclasses import replace

from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.converter import DataConverter, DefaultFailureConverterWithEncodedAttributes

from temporal.codec import EncryptionCodec
from temporal.keys import KeyRing


def data_converter(ring: KeyRing) -> DataConverter:
    """Pydantic models as JSON; with keys, encrypted, the messages and stack traces of failures among them.

    Without keys the codec is there all the same: what somebody else has encrypted is named, with its key's ID.
    """
    converter = replace(pydantic_data_converter, payload_codec=EncryptionCodec(ring))
    if ring.first is None:
        return converter
    return replace(converter, failure_converter_class=DefaultFailureConverterWithEncodedAttributes)
