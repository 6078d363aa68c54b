"""The site of several versions: how it is put together, and the switcher in a browser."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[1] / "docs"
MAKEFILE = ".PHONY: docs\ndocs:\n\tmkdir -p docs/_build/html\n\tcp page.txt docs/_build/html/index.html\n"
READY = "document.querySelector('select.versions').options.length === 2"  # the list has come


def page(version, root):
    """A page with the switcher, as the theme places it: in the header and in the menu of a phone."""
    text = (DOCS / "_templates" / "versions.html").read_text("utf-8").partition("#}")[2]
    select = text.replace("{{ version }}", version).replace("{{ pathto('', 1) }}", root)
    return f"<!doctype html><script src='{root}versions.js'></script><h1 id='top'>{version}</h1>{select}{select}"


@pytest.fixture
def two_versions(tmp_path):
    site = tmp_path / "served" / "hingerank"
    for version, names in {"0.4.0": ["index", "new", "api/RankSVM"], "0.3.0": ["index", "api/RankSVM"]}.items():
        for name in names:
            path = site / version / f"{name}.html"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(page(version, "../" * name.count("/")), "utf-8")
        shutil.copy(DOCS / "_static" / "versions.js", site / version)
    (site / "versions.json").write_text('["0.4.0", "0.3.0"]')
    return site


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "key", "after"),
    [
        ("0.4.0/index.html", "ArrowDown", "0.3.0/index.html"),
        ("0.4.0/", "ArrowDown", "0.3.0/"),
        ("0.4.0/api/RankSVM.html#top", "ArrowDown", "0.3.0/api/RankSVM.html#top"),
        ("0.3.0/api/RankSVM.html", "ArrowUp", "0.4.0/api/RankSVM.html"),
        ("0.4.0/new.html", "ArrowDown", "0.3.0/index.html"),  # a page that the older version does not have
    ],
)
def test_choosing_a_version_leads_to_the_same_page_there(two_versions, serve, browser, before, key, after):
    served = serve(two_versions.parent)
    for select in (0, 1):
        opened = browser.open(f"{served}/hingerank/{before}")
        opened.wait(READY)
        opened.press("select.versions", key, select)
        opened.wait(f"location.href === '{served}/hingerank/{after}' && document.readyState === 'complete'")
        version = after.partition("/")[0]
        opened.wait(READY)
        assert opened.texts("h1") == [version]
        assert opened.run("document.querySelector('select.versions').value") == version
        assert opened.texts("select.versions:first-of-type option") == ["0.4.0", "0.3.0"]


def test_a_site_without_a_list_shows_its_own_version(two_versions, serve, browser):
    (two_versions / "versions.json").unlink()
    opened = browser.open(f"{serve(two_versions.parent)}/hingerank/0.3.0/api/RankSVM.html")
    assert opened.texts("select.versions:first-of-type option") == ["0.3.0"]


def test_older_versions_are_built_from_their_tags(tmp_path, monkeypatch):
    if not (shutil.which("git") and shutil.which("make")):
        pytest.skip("needs git and make")
    checkout, site = tmp_path / "a checkout", tmp_path / "site"
    (checkout / "docs").mkdir(parents=True)

    def git(*words):
        who = ["-c", "user.name=x", "-c", "user.email=x@localhost", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *who, *words], cwd=checkout, check=True, capture_output=True)

    git("init", "--quiet")
    (checkout / "Makefile").write_text(MAKEFILE)
    (checkout / ".gitignore").write_text("docs/_build/\n")
    for version in ("0.3.0", "0.4.0"):
        (checkout / "page.txt").write_text(f"the page of {version}")
        git("add", ".")
        git("commit", "--quiet", "-m", version)
        git("tag", f"v{version}")
    (checkout / "docs" / "versions.json").write_text('["0.5.0", "0.4.0", "0.3.0"]')
    (checkout / "page.txt").write_text("the page of 0.5.0")
    subprocess.run(["make", "docs"], cwd=checkout, check=True, capture_output=True)
    (site / "0.1.0").mkdir(parents=True)
    monkeypatch.syspath_prepend(str(DOCS / "_site"))
    monkeypatch.delitem(sys.modules, "assemble", raising=False)
    from assemble import assemble

    assemble(checkout, site)
    assert sorted(path.name for path in site.iterdir()) == ["0.3.0", "0.4.0", "0.5.0", "index.html", "versions.json"]
    for version in json.loads((site / "versions.json").read_text()):
        assert (site / version / "index.html").read_text() == f"the page of {version}"
    assert "url=0.5.0/index.html" in (site / "index.html").read_text()
