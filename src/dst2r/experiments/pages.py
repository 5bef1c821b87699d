"""A small document, and how it reads as Markdown and as one HTML file that needs no network."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

STYLE = """
:root { --ink: #1c2733; --soft: #5d6b79; --line: #dde3e9; --accent: #1f4e79; --best: #eaf2fa; }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem 1rem 4rem; max-width: 1120px; color: var(--ink); background: #fff;
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .5rem; }
h2 { font-size: 1.25rem; margin: 3rem 0 .5rem; padding-top: 1rem; border-top: 2px solid var(--accent); }
h3 { font-size: 1rem; margin: 1.75rem 0 .4rem; }
p { margin: .4rem 0; max-width: 75ch; }
ul { margin: .5rem 0; padding-left: 1.2rem; max-width: 85ch; }
.verdicts { list-style: none; padding: 0; }
.verdicts li { padding: .3rem 0 .3rem 1.7rem; position: relative; }
.verdicts li::before { position: absolute; left: .2rem; content: "✓"; color: #1a7f4b; font-weight: 700; }
.verdicts li.not::before { content: "✗"; color: #b42318; }
.scroll { overflow-x: auto; -webkit-overflow-scrolling: touch; }
table { border-collapse: collapse; font-size: .875rem; font-variant-numeric: tabular-nums; }
th, td { padding: .35rem .8rem .35rem 0; text-align: right; vertical-align: top; border-bottom: 1px solid var(--line);
  white-space: nowrap; }
th { font-weight: 600; } thead th { border-bottom: 2px solid var(--line); color: var(--soft); vertical-align: bottom; }
th:first-child, td:first-child { text-align: left; position: sticky; left: 0; background: #fff; padding-left: .2rem; }
td.best { background: var(--best); font-weight: 600; }
td small { display: block; color: var(--soft); font-weight: 400; font-size: .78rem; }
td, th { padding-left: .6rem; }
figure { margin: 1rem 0; } figure img { max-width: 100%; height: auto; display: block; }
figcaption { color: var(--soft); font-size: .875rem; max-width: 75ch; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem; font-size: .875rem; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
code { font: .85em ui-monospace, "DejaVu Sans Mono", monospace; }
@media (max-width: 600px) { body { font-size: 15px; padding: 1rem .75rem 3rem; } table { font-size: .8rem; }
  dl { grid-template-columns: 1fr; gap: 0; } dd { margin-bottom: .5rem; }
  figure.wide { overflow-x: auto; } figure.wide img { max-width: none; width: 760px; } }
"""


@dataclass(frozen=True)
class Entry:
    """A cell of a table: our figure, a note beside it, and whether it is the best of its column."""

    text: str
    note: str = ""
    best: bool = False


@dataclass(frozen=True)
class Grid:
    """A table; the first column names the rows."""

    title: str
    head: Sequence[str]
    rows: Sequence[tuple[str, Sequence[Entry]]]


@dataclass(frozen=True)
class Picture:
    """A figure, for the page as SVG."""

    name: str
    caption: str
    svg: bytes
    png: bytes


@dataclass(frozen=True)
class Section:
    """A heading with what stands under it."""

    title: str
    text: Sequence[str] = ()
    verdicts: Sequence[tuple[bool, str]] = ()
    points: Sequence[str] = ()
    pictures: Sequence[Picture] = ()
    grids: Sequence[Grid] = ()
    facts: Sequence[tuple[str, str]] = field(default_factory=tuple)


def to_markdown(title: str, sections: Sequence[Section]) -> str:
    """Render as Markdown; figures are files beside it."""
    lines = [f"# {title}", ""]
    for section in sections:
        lines += [f"## {section.title}", ""]
        for paragraph in section.text:
            lines += [paragraph, ""]
        marked = [f"- {'yes' if holds else '**no**'}: {text}" for holds, text in section.verdicts]
        for listed in (marked, [f"- {point}" for point in section.points]):
            lines += [*listed, ""] if listed else []
        for picture in section.pictures:
            lines += [f"![{picture.caption}]({picture.name}.svg)", ""]
        for grid in section.grids:
            lines += [f"### {grid.title}", "", *_markdown_grid(grid), ""]
        lines += [*(f"- {name}: {value}" for name, value in section.facts), ""] if section.facts else []
    return "\n".join(lines).rstrip() + "\n"


def _markdown_grid(grid: Grid) -> list[str]:
    lines = ["| " + " | ".join(grid.head) + " |", "|---|" + "---:|" * (len(grid.head) - 1)]
    for name, entries in grid.rows:
        cells = []
        for entry in entries:
            shown = f"**{entry.text}**" if entry.best else entry.text
            cells.append(f"{shown} · {entry.note}" if entry.note else shown)
        lines.append("| " + " | ".join([name, *cells]) + " |")
    return lines


def to_html(title: str, sections: Sequence[Section]) -> str:
    """Render as a single HTML file."""
    body = "\n".join(_html_section(section) for section in sections)
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>{escape(title)}</title>\n'
        f"<style>{STYLE}</style>\n</head>\n<body>\n<h1>{escape(title)}</h1>\n{body}\n</body>\n</html>\n"
    )


def _html_section(section: Section) -> str:
    parts = [f"<h2>{escape(section.title)}</h2>", *(f"<p>{escape(paragraph)}</p>" for paragraph in section.text)]
    if section.verdicts:
        items = (f'<li class="{"" if holds else "not"}">{escape(text)}</li>' for holds, text in section.verdicts)
        parts.append(f'<ul class="verdicts">{"".join(items)}</ul>')
    if section.points:
        parts.append("<ul>" + "".join(f"<li>{escape(point)}</li>" for point in section.points) + "</ul>")
    for picture in section.pictures:
        data = base64.b64encode(picture.svg).decode()
        parts.append(
            f'<figure class="wide"><img alt="{escape(picture.caption)}" src="data:image/svg+xml;base64,{data}">'
            f"<figcaption>{escape(picture.caption)}</figcaption></figure>"
        )
    parts += [_html_grid(grid) for grid in section.grids]
    if section.facts:
        facts = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in section.facts)
        parts.append(f"<dl>{facts}</dl>")
    return "<section>\n" + "\n".join(parts) + "\n</section>"


def _html_grid(grid: Grid) -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in grid.head)
    rows = "\n".join(f'<tr><th scope="row">{escape(name)}</th>{_html_cells(cells)}</tr>' for name, cells in grid.rows)
    return (
        f'<h3>{escape(grid.title)}</h3>\n<div class="scroll" tabindex="0"><table>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody></table></div>"
    )


def _html_cells(entries: Sequence[Entry]) -> str:
    cells = []
    for entry in entries:
        note = f"<small>{escape(entry.note)}</small>" if entry.note else ""
        opening = '<td class="best">' if entry.best else "<td>"
        cells.append(f"{opening}{escape(entry.text)}{note}</td>")
    return "".join(cells)
