// Questions of tests/browser.rs to a page, from within it. Answers go to the frame around it.
"use strict";
const refused = [];
addEventListener("securitypolicyviolation", (event) => refused.push(event.violatedDirective + " " + event.sourceFile));
const broken = [];
addEventListener("error", (event) => broken.push(String(event.message)));
addEventListener("load", () => {
  const all = (what) => Array.from(document.querySelectorAll(what));
  const shown = (what) => all(what).filter((it) => it.getClientRects().length > 0).length;
  const channel = (value) => {
    const share = value / 255;
    return share > 0.03928 ? ((share + 0.055) / 1.055) ** 2.4 : share / 12.92;
  };
  const light = (color) => {
    const [red, green, blue] = color.match(/[\d.]+/g).map(Number);
    return 0.2126 * channel(red) + 0.7152 * channel(green) + 0.0722 * channel(blue);
  };
  const back = getComputedStyle(document.body).backgroundColor;
  const contrast = (color) => {
    const [a, b] = [light(color), light(back)].sort();
    return (b + 0.05) / (a + 0.05);
  };
  all("details").forEach((it) => { it.open = true; });
  // Text could differ in size between a wide drawing and a narrow one; none is too small to be read.
  const letters = all("svg text").map((it) => {
    const scale = it.ownerSVGElement.getBoundingClientRect().width / it.ownerSVGElement.viewBox.baseVal.width;
    return parseFloat(getComputedStyle(it).fontSize) * scale;
  });
  const outside = all("svg text").filter((it) => {
    const [own, room] = [it.getBoundingClientRect(), it.ownerSVGElement.getBoundingClientRect()];
    return own.left + 1 < room.left || own.right > room.right + 1 || own.bottom > room.bottom + 1;
  });
  const answer = {
    width: innerWidth,
    overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
    dark: matchMedia("(prefers-color-scheme: dark)").matches,
    back,
    contrast: Math.min(...["body", ".muted", "a", ".badge", "svg text"].map((what) => {
      const style = getComputedStyle(document.querySelector(what));
      return contrast(what === "svg text" ? style.fill : style.color);
    })),
    charts: all("svg").length,
    narrowest: Math.min(...all("svg").map((it) => it.getBoundingClientRect().width)),
    letters: Math.min(...letters),
    outside: outside.map((it) => it.textContent),
    cases: shown(".cases details.case"),
    rows: shown(".values tbody tr"),
    first: all(".problem, .values").map((it) => it.tagName),
    tools: shown(".tools input"),
    images: all("img").length,
    hacked: "hacked" in window,
    refused,
    broken,
  };
  const search = document.querySelector(".tools input");
  search.value = "FAST small";
  search.dispatchEvent(new Event("input"));
  answer.filtered = [shown(".values tbody tr"), shown(".cases details.case")];
  search.value = "";
  search.dispatchEvent(new Event("input"));
  const state = document.querySelector(".tools select");
  state.value = "pass";
  state.dispatchEvent(new Event("change"));
  answer.passed = [shown(".values tbody tr"), shown(".cases details.case")];
  state.value = "";
  state.dispatchEvent(new Event("change"));
  const cases = document.querySelector(".cases");
  scrollTo(0, cases.offsetTop + cases.offsetHeight / 2);
  answer.scrolled = Math.round(scrollY);
  answer.sticks = Math.round(document.querySelector(".tools").getBoundingClientRect().top);
  const table = document.querySelector(".values");
  const sorted = () => Array.from(table.tBodies[0].rows, (row) => row.cells[2].textContent);
  const head = table.querySelectorAll("th button")[2];
  head.click();
  answer.ascending = sorted();
  head.click();
  answer.descending = sorted();
  parent.postMessage(JSON.stringify(answer), "*");
});
