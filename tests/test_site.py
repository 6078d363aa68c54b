"""The site in a browser, at the width of a desk and of a phone: headings, header, formulas, contrast; and its links."""

import itertools
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).resolve().parents[1]
pytestmark = pytest.mark.slow
ENTRIES = ["Get started", "User guide", "Methods", "Deploy", "Examples", "API", "Evidence"]
LOOKED_AT = ["index", "start", "methods", "additive", "linear", "kernel", "personal", "design", "start-clicks",
             "tuning", "explaining", "comparing", "no-better", "measures", "clients", "changelog",
             "auto_examples/plot_shop", "api/index", "api/rankers", "api/RankSVM", "api/InductiveMatrixCompletion",
             "api/OneQueryWarning", "api/tune-function", "api/command-line"]  # fmt: skip
CONTRAST = """
(() => {
  const light = text => {
    const [r, g, b] = text.match(/[\\d.]+/g).map(Number).map(v => v / 255)
      .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = element => {
    for (let e = element; e; e = e.parentElement) {
      const colour = getComputedStyle(e).backgroundColor;
      const parts = colour.match(/[\\d.]+/g);
      if (parts && (parts.length < 4 || Number(parts[3]) > 0.9)) return colour;
    }
    return getComputedStyle(document.documentElement).backgroundColor;
  };
  const poor = [];
  let looked = 0;
  for (const element of document.querySelectorAll("article p, article li, article td, article th, article a, "
      + "article h1, article h2, article code, article pre span, .bd-header a")) {
    const own = [...element.childNodes].some(node => node.nodeType === 3 && node.textContent.trim());
    if (!own || !element.offsetParent) continue;
    const [a, b] = [light(getComputedStyle(element).color), light(behind(element))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    looked += 1;
    if (ratio < 4.5) poor.push(element.textContent.trim().slice(0, 30) + " " + ratio.toFixed(2));
  }
  return [looked, poor];
})()
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("sphinx", reason="Sphinx is not installed: pip install 'hingerank[docs]'")
    folder = tmp_path_factory.mktemp("site")
    here = shutil.ignore_patterns("_build", "auto_examples", "api", "runs", "__pycache__")
    shutil.copytree(ROOT / "docs", folder / "docs", ignore=here)
    shutil.copytree(ROOT / "examples", folder / "examples", ignore=here)
    shutil.copy(ROOT / "CHANGELOG.md", folder)
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-n", "docs", "html"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-6000:]
    return folder / "html"


def test_the_site_builds_without_warnings_and_has_its_pages(site):
    for page in (ROOT / "docs").glob("*.md"):
        assert (site / page.with_suffix(".html").name).exists()
    examples = sorted(path.stem for path in (ROOT / "examples").glob("plot_*.py"))
    assert len(examples) >= 4
    for name in examples:
        text = (site / "auto_examples" / f"{name}.html").read_text("utf-8")
        assert "sphx-glr-single-img" in text or "sphx-glr-multi-img" in text, f"{name} shows no figure"


def test_pages_load_nothing_from_elsewhere(site):
    for path in site.rglob("*.html"):
        text = path.read_text("utf-8")
        loaded = re.findall(r'<(?:script|img|link|iframe)\b[^>]*\b(?:src|href)="((?:https?:)?//[^"]+)"', text)
        assert not loaded, f"{path.name} loads {loaded[0]}"


def test_equations_are_drawn_by_the_browser(site):
    text = (site / "linear.html").read_text("utf-8")
    assert text.count('<math xmlns="http://www.w3.org/1998/Math/MathML" display="block">') == 1
    assert "<msup>" in text and r"\max" not in text


class _Links(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.links, self.ids = [], set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.ids |= {found[name] for name in ("id", "name") if found.get(name)}
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])


def test_links_lead_somewhere(site):
    pages = {path: _Links(path.read_text("utf-8")) for path in site.rglob("*.html")}
    broken = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            assert parts.scheme != "mailto", f"{path.name} has the mail link {link}"
            if parts.scheme:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.exists() or (
                parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].ids
            ):
                broken.append(f"{path.relative_to(site)}: {link}")
    assert not broken


def test_blocks_of_pages_show_what_they_print(site):
    text = (site / "index.html").read_text("utf-8")
    assert re.search(r'class="[^"]*output[^"]*"', text) and "relative duality gap" in text


def test_the_front_page_shows_a_ranking_a_curve_and_a_certificate_and_no_formula(site):
    text = (site / "index.html").read_text("utf-8")
    assert "demo.png" in text and "converged: " in text and "<math" not in text


def test_every_public_name_has_a_page_and_the_reference_every_command(site):
    import hingerank as hr
    from hingerank.cli.app import PANELS

    names = {path.stem.removesuffix("-function") for path in (site / "api").glob("*.html")}
    assert set(hr._HOME) <= names
    text = (site / "api" / "command-line.html").read_text("utf-8")
    for commands in PANELS.values():
        assert all(f'id="hingerank-{name}"' in text for name in commands)


@pytest.mark.parametrize(("width", "mobile"), [(1280, False), (390, True)], ids=["desk", "phone"])
def test_pages_fit_and_are_in_order(site, browser, width, mobile):
    for name in LOOKED_AT:
        page = browser.open(site / f"{name}.html", width=width, mobile=mobile)
        assert page.run("document.documentElement.scrollWidth") <= width, f"{name} is too wide"
        beyond = page.run("(e => e.scrollWidth - e.clientWidth)(document.querySelector('.bd-article-container'))")
        assert beyond <= 0, f"the text of {name} scrolls sideways by {beyond} pixels"
        levels = page.run("[...document.querySelectorAll('article :is(h1,h2,h3,h4,h5,h6)')].map(e => +e.tagName[1])")
        assert levels.count(1) == 1 and levels[0] == 1, f"{name} has the headings {levels}"
        assert all(b - a <= 1 for a, b in itertools.pairwise(levels)), f"{name} leaves a level of headings out"
        assert page.run("document.querySelector('.bd-header').getBoundingClientRect().height") < 90
        drawn = page.run(
            "[...document.querySelectorAll('math')].map(e => [e.textContent, e.getBoundingClientRect().height])"
        )
        assert all("\\" not in text and height > 0 for text, height in drawn), f"{name} draws a formula wrongly"
        assert not page.run("document.querySelectorAll('math merror').length")
        if not mobile:
            entries = "[...document.querySelectorAll('.bd-header .navbar-nav .nav-item > .nav-link')]"
            shown = page.run(f"{entries}.map(e => [e.textContent.trim(), e.getBoundingClientRect().top])")
            assert [text for text, _ in shown] == ENTRIES and len({top for _, top in shown}) == 1


def test_norms_and_fractions_are_drawn_in_their_places(site, browser):
    page = browser.open(site / "design.html")
    tops = page.run(
        "[...document.querySelectorAll('math msup')].map(e => [e.children[0], e.children[1]]"
        ".map(c => c.getBoundingClientRect().top))"
    )
    assert tops and all(power < base + 4 for base, power in tops)  # powers stand above what they are of
    bars = page.run("[...document.querySelectorAll('math mfrac')].map(e => [...e.children].map(c => c.textContent))")
    assert ["1", "2"] in bars


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_text_has_contrast(site, browser, dark):
    for name in ("index", "methods", "start", "api/RankSVM", "auto_examples/plot_shop"):
        looked, poor = browser.open(site / f"{name}.html", dark=dark).run(CONTRAST)
        assert looked > 20 and not poor, f"{name}: {poor[:5]}"


@pytest.mark.parametrize("width", [1280, 390], ids=["desk", "phone"])
def test_the_switcher_leads_to_the_same_page_of_another_version(site, browser, serve, tmp_path, width):
    """Two versions of the real pages, of which the older one lacks a page."""
    import hingerank

    newest, older = hingerank.__version__, "0.0.1"
    for version in (newest, older):
        shutil.copytree(site, tmp_path / version)
    for path in (tmp_path / older).rglob("*.html"):
        path.write_text(path.read_text("utf-8").replace(f'data-version="{newest}"', f'data-version="{older}"'), "utf-8")
    (tmp_path / older / "design.html").unlink()
    (tmp_path / "versions.json").write_text(f'["{newest}", "{older}"]')
    address = serve(tmp_path)
    shown = 0 if width > 1000 else 1  # in the header, or in the menu that a phone shows
    for before, after in (("api/RankSVM.html", "api/RankSVM.html"), ("design.html", "index.html")):
        page = browser.open(f"{address}/{newest}/{before}", width=width)
        page.wait("document.querySelector('select.versions').options.length === 2")
        if shown:
            page.click("button.primary-toggle")
            page.wait("document.querySelectorAll('select.versions')[1].offsetParent !== null")
        page.press("select.versions", "ArrowDown", shown)
        page.wait(f"location.href === '{address}/{older}/{after}' && document.readyState === 'complete'")
        page.wait(f"document.querySelectorAll('select.versions')[{shown}].value === '{older}'")
