// The report's first part: what was run, the headline numbers, the figures, how to do it again.

import { el, harmless } from "./words.js";

export function drawHeadline(told) {
  document.body.classList.add("report");
  const section = document.getElementById("about");
  section.hidden = false;
  document.getElementById("about-title").textContent = harmless(told.title);
  const facts = told.facts.map(([title, value]) => el("div", {}, el("span", { class: "quiet" }, title), el("strong", {}, harmless(value))));
  const figures = told.figures.map(({ title, image }) => el("figure", {}, el("img", { src: image, alt: harmless(title) })));
  const again = el("details", { open: true }, el("summary", {}, "How to do it again"), el("pre", { tabIndex: 0 }, harmless(told.again.join("\n")).replaceAll("\\u{a}", "\n")),
    el("p", { class: "quiet" }, harmless(told.versions)));
  document.getElementById("about-body").replaceChildren(el("p", {}, harmless(told.sentence)), el("div", { class: "facts" }, ...facts), el("div", { class: "figures" }, ...figures), again,
    ...told.notes.map((note) => el("p", { class: "note" }, harmless(note))));
}
