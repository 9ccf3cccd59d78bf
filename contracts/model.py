"""The base of every model, and how models are compared."""

from __future__ import annotations

import hashlib
import json

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError

from contracts.docstrings import field_docstrings


class Model(BaseModel):
    """A value that travels: through HTTP, a workflow's history or a file. Unknown fields are refused, not ignored.

    What the string under a field says is the field's description in a JSON schema.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        schema = handler(core)
        properties = handler.resolve_ref_schema(schema).get("properties", {})
        said = field_docstrings(cls)
        for name, field in cls.model_fields.items():
            shown = properties.get(name if field.alias is None else field.alias)
            if shown is not None and name in said:
                shown.setdefault("description", said[name])
        return schema


class Ensured(Model):
    """What an ``ensure_…`` activity found or made. ``changed`` is false where nothing had to be done."""

    changed: bool = True

    @property
    def identifier(self) -> str:
        """What the resource is called: its model's first own field."""
        own = next(name for name in type(self).model_fields if name not in Ensured.model_fields)
        return str(getattr(self, own))


def fault(pointer: str, detail: str) -> PydanticCustomError:
    """What a validator of a whole model raises: ``pointer`` leads from the model to the field at fault."""
    return PydanticCustomError("fault", "{detail}", {"pointer": pointer, "detail": detail})


def fingerprint(model: BaseModel) -> str:
    """A short hash of a model's content: equal for equal content, whatever the order of keys."""
    canonical = json.dumps(model.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]
