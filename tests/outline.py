"""The tags, attributes and texts of a piece of HTML, whose tags have to be balanced."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = {"meta", "link", "br", "img", "hr", "input", "wbr"}


class Outline(HTMLParser):
    """Collects tags, ids, references and the texts between them, and checks that tags are balanced."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.attributes: list[tuple[str, str, str | None]] = []
        self.texts: list[str] = []
        self.open: list[str] = []
        self.goes_on = False
        self.feed(page)
        self.close()

    @property
    def text(self) -> str:
        return " ".join(self.texts)

    def values(self, name: str) -> list[str]:
        """Return the values of an attribute, in the order of the page."""
        return [value or "" for _, attribute, value in self.attributes if attribute == name]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.goes_on = tag == "wbr"
        self.attributes += [(tag, name, value) for name, value in attrs]
        self.ids += [value for name, value in attrs if name == "id" and value]
        self.links += [value for name, value in attrs if name in {"href", "src", "xlink:href"} and value]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if data.strip() and self.open[-1:] not in (["style"], ["script"]):
            text = " ".join(data.split())
            if self.goes_on:
                self.texts[-1] += text
            else:
                self.texts.append(text)
            self.goes_on = False
