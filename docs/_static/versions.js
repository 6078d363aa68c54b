// Other versions of the site, as versions.json at its root (or above it) lists them: [{"version": "0.3.0", "path": ""}].
// Pages opened as files show their own version alone.
document.addEventListener("DOMContentLoaded", async () => {
  for (const select of document.querySelectorAll("select.versions")) {
    if (location.protocol === "file:") continue;
    const root = new URL(select.dataset.root || "./", location.href);
    for (const place of ["../", "./"]) {
      const base = new URL(place, root);
      const answer = await fetch(new URL("versions.json", base)).catch(() => null);
      if (!answer || !answer.ok) continue;
      const known = await answer.json();
      select.replaceChildren(...known.map(({version, path}) => {
        const option = new Option(version, new URL(path, base).href);
        option.selected = version === select.dataset.version;
        return option;
      }));
      select.addEventListener("change", () => { location.href = select.value; });
      break;
    }
  }
});
