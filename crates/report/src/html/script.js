"use strict";
(() => {
  const all = (of, what) => Array.from(of.querySelectorAll(what));
  const button = (text, on) => {
    const it = document.createElement("button");
    it.type = "button";
    it.textContent = text;
    it.addEventListener("click", on);
    return it;
  };

  // A figure with its unit, to sort by; NaN for what is none.
  const units = { ns: 1, us: 1e3, ms: 1e6, s: 1e9, KiB: 1024, MiB: 1048576 };
  const figure = (text) => {
    const parts = text.replace("same to ", "0 ").split(" ");
    const sign = /faster|less|fewer|lower/.test(text) ? -1 : 1;
    return sign * parseFloat(parts[0]) * (units[parts[1]] || 1);
  };
  const compare = (a, b) => {
    const [x, y] = [figure(a), figure(b)];
    if (isNaN(x) === isNaN(y)) return isNaN(x) ? a.localeCompare(b, "en", { numeric: true }) : x - y;
    return isNaN(x) ? 1 : -1;
  };
  for (const table of all(document, "table")) {
    const body = table.tBodies[0];
    if (2 > body.rows.length) continue;
    all(table, "th").forEach((head, at) => {
      const name = head.textContent;
      head.textContent = "";
      head.append(button(name, () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        all(table, "th").forEach((it) => it.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const text = (row) => row.cells[at].textContent;
        const rows = Array.from(body.rows).sort((a, b) => (down ? -1 : 1) * compare(text(a), text(b)));
        body.append(...rows);
      }));
    });
  }

  const cases = all(document, "details.case");
  const tools = document.querySelector(".tools");
  if (tools) {
    const [search, state, opener] = ["input", "select", "button"].map((it) => tools.querySelector(it));
    const count = tools.querySelector("output");
    const filter = () => {
      const words = search.value.toLowerCase().split(/\s+/);
      let shown = 0;
      for (const it of cases) {
        const name = it.dataset.name.toLowerCase();
        const fits = words.every((word) => name.includes(word));
        it.hidden = !(fits ? state.value === "" || it.dataset.outcome === state.value : false);
        shown += it.hidden ? 0 : 1;
      }
      for (const kernel of all(document, ".kernel")) {
        kernel.hidden = all(kernel, "details.case").every((it) => it.hidden);
      }
      count.textContent = shown === cases.length ? "" : shown + " of " + cases.length;
    };
    search.addEventListener("input", filter);
    state.addEventListener("change", filter);
    opener.addEventListener("click", () => {
      const shown = cases.filter((it) => !it.hidden);
      const open = shown.some((it) => !it.open);
      shown.forEach((it) => { it.open = open; });
    });
    tools.hidden = false;
  }

  if (navigator.clipboard) {
    for (const block of all(document, "pre.command")) {
      const text = block.textContent;
      const copy = button("copy", () => navigator.clipboard.writeText(text).then(() => { copy.textContent = "copied"; }));
      block.append(copy);
    }
  }

  // A link to a case opens it, in browsers that do not by themselves.
  const reveal = () => {
    const target = document.getElementById(location.hash.slice(1));
    const fold = target ? target.closest("details") : null;
    if (fold) {
      fold.open = true;
      fold.hidden = false;
      target.scrollIntoView();
    }
  };
  addEventListener("hashchange", reveal);
  reveal();
})();
