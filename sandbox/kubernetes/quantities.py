"""Resource quantities: https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/"""

from __future__ import annotations

import re
from decimal import Decimal

_QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([eE][+-]?\d+)|([numkMGTPE]|[KMGTPE]i)?)")
_SUFFIXES = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "": Decimal(1),
    "k": Decimal(10) ** 3,
    "M": Decimal(10) ** 6,
    "G": Decimal(10) ** 9,
    "T": Decimal(10) ** 12,
    "P": Decimal(10) ** 15,
    "E": Decimal(10) ** 18,
    **{f"{prefix}i": Decimal(1024) ** power for power, prefix in enumerate("KMGTPE", 1)},
}


def parse_quantity(value: object) -> Decimal:
    """``"500m"``, ``"4Gi"``, ``2`` as a number of base units."""
    if type(value) is int:
        return Decimal(value)
    match = _QUANTITY.fullmatch(str(value))
    if match is None:
        raise ValueError("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")
    number, exponent, suffix = match.groups()
    return Decimal(number + exponent) if exponent else Decimal(number) * _SUFFIXES[suffix or ""]


def format_quantity(value: Decimal) -> str:
    """A plain form: whole numbers, or milli-units."""
    return str(int(value)) if value == value.to_integral_value() else f"{int(value * 1000)}m"
