"""The reference page of the settings is the models' own."""

from pathlib import Path

from roost.settings_page import settings_page

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "settings.md"


def test_the_page_is_up_to_date() -> None:
    """Renew it: python -m roost.settings_page > docs/reference/settings.md"""
    assert PAGE.read_text(encoding="utf-8") == settings_page()
