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

  const tools = document.querySelector(".tools");
  if (tools) {
    const [search, state, opener] = ["input", "select", "button"].map((it) => tools.querySelector(it));
    const count = tools.querySelector("output");
    const blocks = all(document, ".cases details.case");
    const rows = all(document, ".values tbody tr").map((it) => ({
      it, name: it.cells[0].textContent, outcome: it.cells[1].textContent, counts: 1,
    }));
    const cases = rows.concat(blocks.map((it) => ({ it, name: it.dataset.name, outcome: it.dataset.outcome, counts: 0 })));
    const filter = () => {
      const words = search.value.toLowerCase().split(/\s+/);
      let shown = 0;
      for (const { it, name, outcome, counts } of cases) {
        const fits = words.every((word) => name.toLowerCase().includes(word));
        it.hidden = !(fits ? state.value === "" || outcome === state.value : false);
        shown += it.hidden ? 0 : counts;
      }
      count.textContent = shown === rows.length ? "" : shown + " of " + rows.length;
    };
    search.addEventListener("input", filter);
    state.addEventListener("change", filter);
    opener.hidden = blocks.length === 0;
    opener.addEventListener("click", () => {
      const shown = blocks.filter((it) => !it.hidden);
      const open = shown.some((it) => !it.open);
      shown.forEach((it) => {
        it.open = open;
        const around = it.parentElement.closest("details");
        if (around) around.open = true;
      });
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
    let fold = target ? target.closest("details") : null;
    if (!fold) return;
    for (; fold; fold = fold.parentElement.closest("details")) {
      fold.open = true;
      fold.hidden = false;
    }
    target.scrollIntoView();
  };
  addEventListener("hashchange", reveal);
  reveal();
})();
