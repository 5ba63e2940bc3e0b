// The report's first part: what was run, the headline numbers, the figures, how to reproduce it.

import { el, harmless } from "./words.js";

export function drawHeadline(headline) {
  document.body.classList.add("report");
  const section = document.getElementById("about");
  section.hidden = false;
  document.getElementById("about-title").textContent = harmless(headline.title);
  const facts = headline.facts.map(([title, value]) =>
    el("div", {}, el("span", { class: "quiet" }, title), el("strong", {}, harmless(value))),
  );
  const figures = headline.figures.map(({ title, image }) => el("figure", {}, el("img", { src: image, alt: harmless(title) })));
  const again = el(
    "details",
    { open: true },
    el("summary", {}, "How to reproduce it"),
    el("pre", { tabIndex: 0 }, harmless(headline.again.join("\n")).replaceAll("\\u{a}", "\n")),
    el("p", { class: "quiet" }, harmless(headline.versions)),
  );
  document
    .getElementById("about-body")
    .replaceChildren(
      el("p", {}, harmless(headline.sentence)),
      el("div", { class: "facts" }, ...facts),
      el("div", { class: "figures" }, ...figures),
      again,
      ...headline.notes.map((note) => el("p", { class: "note" }, harmless(note))),
    );
}
