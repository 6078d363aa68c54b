"""The site with a folder for each version, as it is served: `python docs/_site/assemble.py docs/_build/site`.

`docs/versions.json` lists the versions, newest first. The newest is what `make docs` built here. The others are built
from their tags (`v0.3.0`), each in a checkout of its own. `versions.json` beside the folders is what the switcher in
the header reads, and `index.html` leads to the newest version.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

BUILT = Path("docs", "_build", "html")
FRONT = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>hingerank</title>
<meta http-equiv="refresh" content="0; url={newest}/index.html">
<p><a href="{newest}/index.html">hingerank {newest}</a></p>
</html>
"""


def assemble(checkout: Path, site: Path) -> None:
    """Write the site of all versions; what was in the folder is removed."""
    newest, *older = json.loads((checkout / "docs" / "versions.json").read_text("utf-8"))
    shutil.rmtree(site, ignore_errors=True)
    shutil.copytree(checkout / BUILT, site / newest)
    for version in older:
        with tempfile.TemporaryDirectory() as folder:
            tag = Path(folder, "hingerank")
            command = ["git", "worktree", "add", "--quiet", "--detach", str(tag), f"v{version}"]
            subprocess.run(command, cwd=checkout, check=True)
            outside = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
            subprocess.run(["make", "docs"], cwd=tag, check=True, env=outside)
            shutil.copytree(tag / BUILT, site / version)
            subprocess.run(["git", "worktree", "remove", "--force", str(tag)], cwd=checkout, check=True)
    (site / "versions.json").write_text(json.dumps([newest, *older]) + "\n", "utf-8")
    (site / "index.html").write_text(FRONT.format(newest=newest), "utf-8")


if __name__ == "__main__":
    assemble(Path(__file__).resolve().parents[2], Path(sys.argv[1]))
