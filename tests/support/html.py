"""Reads HTML that we made, strictly."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = {"br", "hr", "img", "meta"}


class Reading(HTMLParser):
    """Elements are closed in order; keeps tags, attributes and what people read, without the labels in drawings."""

    def __init__(self, markup: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: list[str] = []
        self.feed(markup)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if data.strip() and not {"style", "svg"} & set(self.open):
            self.texts.append(data.strip())
