"""Links and pictures of the pages lead somewhere."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/*.md"),
        *ROOT.glob("core/*.md"),
        *ROOT.glob("plugins/*/*.md"),
    ]
)
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings: lower case, hyphens for spaces, without punctuation."""
    titles = HEADING.findall(page.read_text("utf-8"))
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_within_the_project_leads_to_something(page):
    for link in LINK.findall(page.read_text("utf-8").replace("\n", "")):
        if "://" in link:
            continue
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        assert target.exists(), f"{page.name}: {link}"
        assert not anchor or anchor in anchors(target), f"{page.name}: {link}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_pages_name_no_place_of_a_machine(page):
    text = page.read_text("utf-8")
    assert not re.search(r"(?<![\w.~$}])/(home|root|Users|work|tmp)/", text)


@pytest.mark.parametrize("picture", sorted(ROOT.glob("docs/*.svg")), ids=lambda path: path.name)
def test_pictures_are_well_formed_and_described(picture):
    root = ElementTree.fromstring(picture.read_text("utf-8"))
    parts = {child.tag.rpartition("}")[2]: child for child in root}
    assert parts["title"].text
    assert parts["desc"].text
