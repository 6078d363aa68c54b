// The switcher of versions. A site has a folder for each version, and beside them versions.json: ["0.4.0", "0.3.0"].
// Choosing a version leads to the same page there, or to its front page if it has no such page.
// Pages that are opened as files, or served without that list, show their own version alone.
document.addEventListener("DOMContentLoaded", async () => {
  const selects = document.querySelectorAll("select.versions"); // in the header, and in the menu of a phone
  if (!selects.length || location.protocol === "file:") return;
  const root = new URL(selects[0].dataset.root || "./", location.href);
  const answer = await fetch(new URL("../versions.json", root)).catch(() => null);
  if (!answer || !answer.ok) return;
  const versions = await answer.json();
  for (const select of selects) {
    select.replaceChildren(...versions.map(version => {
      const own = version === select.dataset.version;
      return new Option(version, version, own, own);
    }));
    select.addEventListener("change", async () => {
      const front = new URL(`../${select.value}/`, root);
      const same = new URL(location.pathname.slice(root.pathname.length), front);
      const found = await fetch(same, {method: "HEAD"}).then(page => page.ok, () => false);
      location.href = found ? same.href + location.hash : new URL("index.html", front).href;
    });
  }
});
