"""What models say of their fields."""

from __future__ import annotations

from typing import Generic, TypeVar

from pydantic import Field, create_model

from contracts.docstrings import field_docstrings
from contracts.model import Model

T = TypeVar("T")


class Base(Model):
    size: int = 1
    """GiB, whole."""
    name: str = ""
    quiet: int = 0
    "One line."


class Derived(Base):
    class Inner(Model):
        depth: int = 0
        """Of the inner one."""

    name: str = "derived"
    """What it is called.

    Over two lines.
    """
    called: str = Field("", alias="as")
    """By its alias."""
    said: int = Field(0, description="what the field itself says")
    """What the string says."""


class Box(Model, Generic[T]):
    content: T
    """What is inside."""


def test_the_string_under_a_field_describes_it_and_those_of_bases_are_inherited() -> None:
    assert field_docstrings(Derived) == {
        "size": "GiB, whole.",
        "quiet": "One line.",
        "name": "What it is called.\n\nOver two lines.",
        "called": "By its alias.",
        "said": "What the string says.",
    }
    assert field_docstrings(Derived.Inner) == {"depth": "Of the inner one."}
    assert field_docstrings(Base)["size"] == "GiB, whole."
    assert "name" not in field_docstrings(Base)


def test_a_class_within_a_function_is_its_own() -> None:
    class Base(Model):
        size: int = 2
        """Of another."""

    assert field_docstrings(Base) == {"size": "Of another."}


def test_a_schema_describes_each_field_by_what_is_said_of_it_unless_the_field_says_it_itself() -> None:
    properties = Derived.model_json_schema()["properties"]
    assert {name: each.get("description") for name, each in properties.items()} == {
        "size": "GiB, whole.",
        "name": "What it is called.\n\nOver two lines.",
        "quiet": "One line.",
        "as": "By its alias.",
        "said": "what the field itself says",
    }


def test_a_generic_model_keeps_what_is_said_of_its_fields() -> None:
    assert Box[int].model_json_schema()["properties"]["content"] == {
        "title": "Content",
        "type": "integer",
        "description": "What is inside.",
    }


def test_what_has_no_source_says_nothing() -> None:
    assert field_docstrings(create_model("Made", __module__="nowhere", size=(int, 1))) == {}
