"""Pieces of HTML and SVG. Texts are escaped here; what is called `cell` or `content` is markup already."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def paragraphs(texts: Iterable[str]) -> str:
    """One paragraph for each text."""
    return "".join(f"<p>{escape(text)}</p>" for text in texts)


def definitions(pairs: Iterable[tuple[str, str]]) -> str:
    """Terms and what they mean."""
    return "".join(f"<div><dt>{escape(term)}</dt><dd>{escape(text)}</dd></div>" for term, text in pairs)


def bullets(texts: Iterable[str]) -> str:
    """An unordered list."""
    return "<ul>" + "".join(f"<li>{escape(text)}</li>" for text in texts) + "</ul>"


def table(caption: str, head: Sequence[str], rows: Iterable[Sequence[str]], kind: str = "") -> str:
    """A table of cells, whose first column names the rows."""
    titles = "".join(f'<th scope="col">{escape(text)}</th>' for text in head)
    lines = "".join(
        f'<tr><th scope="row">{first}</th>{"".join(f"<td>{cell}</td>" for cell in rest)}</tr>' for first, *rest in rows
    )
    return wide_table(caption, f"<thead><tr>{titles}</tr></thead><tbody>{lines}</tbody>", kind)


def wide_table(caption: str, content: str, kind: str) -> str:
    """A table that scrolls on its own, by keyboard too, where the page is too narrow for it."""
    name = escape(caption)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{name}">'
        f'<table class="{kind}"><caption>{name}</caption>{content}</table></div>'
    )


def figure(content: str, caption: str) -> str:
    """A picture with the text that explains it."""
    return f"<figure>{content}<figcaption>{escape(caption)}</figcaption></figure>"


def chart(name: str, caption: str, *, square: bool = False) -> str:
    """A figure that the page's script draws."""
    return figure(f'<div class="chart{" square" if square else ""}" data-chart="{name}"></div>', caption)


def bar(share: float) -> str:
    """A level bar from the zero line, by its share of the longest one; its box is 2 wide, from -1."""
    return f'<rect class="{_sign(share)}" x="{min(share, 0.0):.4g}" width="{abs(share):.4g}" y=".15" height=".7"/>'


def column(at: int, share: float) -> str:
    """An upright bar; upwards is the smaller number in an SVG."""
    top, height = f"{-max(share, 0.0):.4g}", f"{abs(share):.4g}"
    return f'<rect data-entry="{at}" class="{_sign(share)}" x="{at}.1" width=".8" y="{top}" height="{height}"/>'


def _sign(share: float) -> str:
    return "minus" if share < 0 else "plus"
