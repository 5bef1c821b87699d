"""The documentation: what its pages show runs as shown, and the built site leads nowhere that is not there."""

import ast
import contextlib
import doctest
import io
import re
import shlex
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parents[1]
DOCS, SITE = ROOT / "docs", ROOT / "docs/_build/html"
MADE = {"_build", "gallery", "results"}  # by programs; what these printed is no command
PAGES = [ROOT / "README.md", *sorted(p for p in DOCS.rglob("*.md") if not MADE & set(p.parts))]
FENCE = re.compile(r"^(?P<ticks>`{3,})(?P<kind>[^\n]*)\n(?P<code>.*?)^(?P=ticks)$", re.M | re.S)
LONG_COMMANDS = {"demo", "reproduce"}  # tested elsewhere

needs_site = pytest.mark.skipif(
    not (SITE / "index.html").exists(), reason="the site is not built: python -m sphinx -W -n docs docs/_build/html"
)


def blocks(page):
    """Kind, code and first line of every fenced block."""
    text = page.read_text(encoding="utf-8")
    for match in FENCE.finditer(text):
        yield match["kind"].strip(), match["code"], text.count("\n", 0, match.start()) + 2


def run_session(code, names, where):
    """Run a ``>>>`` session; the complaints of doctest about it."""
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    test = doctest.DocTestParser().get_doctest(code, {}, where, where, 0)
    test.globs = names  # the next block goes on with the same names
    complaints = io.StringIO()
    doctest.DocTestRunner(optionflags=flags).run(test, out=complaints.write, clear_globs=False)
    return complaints.getvalue()


def run_commands(code, where):
    """Run the lines that begin with ``$ dst2r``, in this process."""
    from typer.testing import CliRunner

    from dst2r.cli.app import app

    for line in code.replace("\\\n", " ").splitlines():
        words = shlex.split(line.removeprefix("$ "), comments=True)
        if words[:1] != ["dst2r"] or LONG_COMMANDS & set(words):
            continue
        result = CliRunner().invoke(app, words[1:])
        assert result.exit_code == 0, f"{where}: {line}\n{result.output}"


def run_page(page):
    """Run all blocks of a page from top to bottom, as a reader would."""
    names, complaints = {"__name__": page.stem}, ""
    for kind, code, line in blocks(page):
        where = f"{page.name}, line {line}"
        if kind == "pycon":
            complaints += run_session(code, names, where)
        elif kind == "python":
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile("\n" * (line - 1) + code, str(page), "exec"), names)
        elif kind == "{code-block} python":  # shown only
            ast.parse(code)
        elif kind in {"console", "sh", "bash", ""}:
            run_commands(code, where)
    return complaints


@pytest.fixture
def reader(tmp_path, monkeypatch):
    """Somebody who follows pages in a new folder, and closes the figures at the end."""
    pyplot = pytest.importorskip("matplotlib.pyplot", reason="pages draw with matplotlib")
    pyplot.switch_backend("Agg")
    monkeypatch.chdir(tmp_path)
    yield run_page
    pyplot.close("all")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_page_runs_as_shown(page, reader):
    assert reader(page) == ""


def test_a_wrong_page_is_seen(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = tmp_path / "page.md"
    page.write_text("```python\nx = 2\n```\n\n```pycon\n>>> x\n3\n```\n")
    assert "page.md, line 6" in run_page(page)
    page.write_text("```python\nimport no_such_module\n```\n")
    with pytest.raises(ModuleNotFoundError):
        run_page(page)
    page.write_text("```console\n$ dst2r predict none.dst2r X.npy -o Y.npy\n```\n")
    with pytest.raises(AssertionError, match=r"none\.dst2r"):
        run_page(page)


class Links(HTMLParser):
    """Ids of a page, where its links lead, and what it loads by itself."""

    def __init__(self, text):
        super().__init__()
        self.ids, self.links, self.loads = set(), [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        values = {name: value or "" for name, value in attrs}
        self.ids |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        elif tag == "link" and not {"index", "search", "next", "prev"} & set(values.get("rel", "").split()):
            self.loads.append(values.get("href", ""))
        elif tag == "form":
            self.links.append(values.get("action", ""))
        elif "src" in values:
            self.loads.append(values["src"])
        self.loads += [part.split()[0] for part in values.get("srcset", "").split(",") if part.strip()]
        self.loads += re.findall(r"url\(([^)]+)\)", values.get("style", ""))


def fault(path, target, ids, *, link):
    """What is wrong with a link of a page, or with what it loads; None if nothing is."""
    url = urlsplit(target.strip("\"' "))
    if url.scheme == "data":
        return None
    if url.scheme or url.netloc:
        return None if link else f"{path.name} loads {target} from the network"
    goal = (path.parent / unquote(url.path)).resolve() if url.path else path
    if not goal.is_file():
        return f"{path.name} {'links to' if link else 'loads'} {target}, which is not there"
    if link and url.fragment and goal in ids and unquote(url.fragment) not in ids[goal]:
        return f"{path.name} links to {target}, which has no such place"
    return None


def broken(site):
    """Complaints about links and loaded files of all pages and style sheets in a folder."""
    texts = {path: path.read_text(encoding="utf-8") for path in site.rglob("*.html") if path.parent.name != "_static"}
    pages = {path: Links(text) for path, text in texts.items()}
    ids = {path: page.ids for path, page in pages.items()}
    faults = [fault(path, target, ids, link=True) for path, page in pages.items() for target in page.links]
    faults += [fault(path, target, ids, link=False) for path, page in pages.items() for target in page.loads]
    for path in site.rglob("*.css"):
        targets = re.findall(r"url\(\s*['\"]?([^'\")]+)", path.read_text(encoding="utf-8"))
        faults += [fault(path, target, ids, link=False) for target in targets if not target.startswith("#")]
    return sorted(set(filter(None, faults)))


@needs_site
def test_all_links_of_the_site_lead_somewhere():
    assert broken(SITE) == []


def test_broken_links_are_seen(tmp_path):
    (tmp_path / "a.html").write_text(
        '<p id="here"><a href="#here">.</a><a href="b.html#there">.</a><a href="b.html#nowhere">.</a>'
        '<a href="c.html">.</a><a href="https://example.org/">.</a><img src="data:,">'
        '<img src="https://example.org/x.png"><script src="x.js"></script>'
    )
    (tmp_path / "b.html").write_text('<p id="there">')
    (tmp_path / "x.css").write_text("a {background: url(//example.org/y.png)}")
    assert broken(tmp_path) == [
        "a.html links to b.html#nowhere, which has no such place",
        "a.html links to c.html, which is not there",
        "a.html loads https://example.org/x.png from the network",
        "a.html loads x.js, which is not there",
        "x.css loads //example.org/y.png from the network",
    ]


@needs_site
def test_commands_can_be_copied_from_the_site():
    import typer.main

    from dst2r.cli.app import app

    text = unescape(re.sub(r"<[^>]+>", "", (SITE / "cli.html").read_text(encoding="utf-8")))
    helps = [command.help for command in typer.main.get_command(app).commands.values()]
    examples = re.findall(r"^(?:Example:|then) +(dst2r .*)$", "\n".join(helps).replace("\\[", "["), flags=re.M)
    assert len(examples) > 10
    assert [line for line in examples if f"$ {line}\n" not in text] == []


@needs_site
def test_the_site_documents_every_public_name_and_command():
    import typer.main

    import dst2r
    from dst2r import baselines, metrics, plotting
    from dst2r.cli.app import app

    shown = {path.stem for path in (SITE / "generated").glob("*.html")}
    names = {f"dst2r.{name}" for name in dst2r.__all__ if name != "__version__"}
    names |= {f"dst2r.baselines.{name}" for name in baselines.__all__}
    names |= {f"dst2r.plotting.{name}" for name in plotting.__all__}
    here = (name for name, value in vars(metrics).items() if getattr(value, "__module__", "") == metrics.__name__)
    names |= {f"dst2r.metrics.{name}" for name in here if not name.startswith("_")}
    assert names - shown == set()
    commands = Links((SITE / "cli.html").read_text(encoding="utf-8")).ids
    assert {f"dst2r-{name}" for name in typer.main.get_command(app).commands} <= commands
