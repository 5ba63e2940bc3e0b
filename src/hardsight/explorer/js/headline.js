// The report's first part: what hardsight check found, the suspects, what was run, the headline numbers, the figures, how to reproduce it,
// and what people would say.

import { again, el, harmless, measured, name, spoken } from "./words.js";

export function drawHeadline(headline, page) {
  document.body.classList.add("report");
  const section = document.getElementById("about");
  section.hidden = false;
  document.getElementById("about-title").textContent = harmless(headline.title);
  const facts = headline.facts.map(([title, value]) =>
    el("div", {}, el("span", { class: "quiet" }, title), el("strong", {}, harmless(value))),
  );
  const figures = headline.figures.map(({ title, image }) => el("figure", {}, el("img", { src: image, alt: harmless(title) })));
  const how = again(headline.again, el("p", { class: "quiet" }, harmless(headline.versions)));
  const body = document.getElementById("about-body");
  const pictures = el("div", { class: "figures" }, ...figures);
  const found = headline.found.map((sentence) => el("p", {}, harmless(sentence)));
  body.replaceChildren(
    ...found,
    el("p", {}, harmless(headline.sentence)),
    el("div", { class: "facts" }, ...facts),
    pictures,
    how,
    ...headline.notes.map((note) => el("p", { class: "note" }, harmless(note))),
  );
  const after = (before, parts) => parts.then((part) => (before ? before.after(part) : body.prepend(part)));
  const sections = [];
  if (headline.suspects) sections.push(after(found.at(-1), suspects(headline.suspects, page)));
  if (headline.people.groups.length) sections.push(after(pictures, people(headline.people, page)));
  page.until(Promise.all(sections)).catch((error) => page.say(error.message, true));
}

const whole = (share) => (Number.isFinite(share) ? `${Math.round(100 * share)} %` : "–");

const idsOf = async ({ source }, places) => (await source.rows(places)).map(({ id }) => harmless(id).slice(0, 100));

// A sample with its picture; a click opens it.
function tile(page, row, id, caption, below) {
  const mark = page.columns.word("mark", row);
  const button = el(
    "button",
    { type: "button", class: "tile", title: id, onclick: () => page.open(row) },
    page.about.pictures ? page.picture(page.source.thumb(row)) : el("span", { class: "nopicture" }, id),
    el("span", { class: "caption" }, ...caption),
    el("span", { class: "caption quiet" }, below),
    mark === null ? null : el("span", { class: "badge", "data-mark": mark }, mark),
  );
  button.setAttribute("aria-label", `${id}, ${below}` + (mark === null ? "" : `, marked ${mark}`));
  return button;
}

// What people would say, from the answers of some; a click opens a sample.
async function people({ sentence, score, groups }, page) {
  const { columns } = page;
  await columns.need(["label", "predicted_frequency", score].filter((name) => columns.has(name)));
  const model = (row) => (score === "confidence" ? whole(columns.get(score)[row]) : measured(columns.get(score)[row], "", 3));
  const strips = groups.map(async ({ title, rows }) => {
    const ids = await idsOf(page, rows);
    const tiles = rows.map((row, at) => {
      const said = el("span", { class: "value" }, `people ${whole(columns.get("predicted_frequency")[row])}`),
        below = columns.has(score) ? `${score === "confidence" ? "model" : spoken(score)} ${model(row)}` : "";
      return tile(page, row, ids[at], [name(columns.word("label", row) ?? "no label", 18), said], below);
    });
    return [el("h4", {}, title), el("div", { class: "strip" }, ...tiles)];
  });
  return el("div", { id: "people" }, el("h3", {}, "What people would say"), el("p", {}, sentence), ...(await Promise.all(strips)).flat());
}

// The suspects with their pictures, most likely wrong first; a click opens one.
async function suspects({ expected, sentence, rows, duplicates }, page) {
  const { columns, about } = page;
  await columns.need(["label", "suggested_label", "suggested_probability", "verdict"]);
  const ids = await idsOf(page, rows),
    copies = await idsOf(page, duplicates.rows);
  const tiles = rows.map((row, at) => {
    const given = columns.word("label", row),
      suggested = page.review.suggested(row),
      verdict = columns.word("verdict", row) ?? "";
    const caption = [
      given === null ? el("span", { class: "quiet" }, "no label") : name(given, 18),
      suggested === null ? null : el("span", { class: "wrong" }, "→ ", name(about.classes[suggested], 18)),
      suggested === null ? null : el("span", { class: "value" }, whole(columns.get("suggested_probability")?.[row])),
    ];
    return tile(page, row, ids[at], caption.filter(Boolean), verdict);
  });
  const repeated = duplicates.rows.map((row, at) => {
    const twin = duplicates.of[at];
    return tile(page, row, copies[at], [name(copies[at], 18)], twin === null ? "" : `repeats ${harmless(twin).slice(0, 100)}`);
  });
  const legend = "Given class → suggested class, with its probability; the most likely errors first.";
  return el(
    "div",
    { id: "suspects" },
    el("h3", {}, "Suspects"),
    expected ? el("p", { class: "headline" }, harmless(expected.split(". ")[0].replace(/\.?$/, "."))) : null,
    expected?.includes(". ") ? el("p", {}, harmless(expected.slice(expected.indexOf(". ") + 2))) : null,
    el("p", {}, harmless(sentence)),
    ...(rows.length ? [el("p", { class: "quiet" }, legend), el("div", { class: "strip" }, ...tiles)] : []),
    ...(repeated.length
      ? [el("h3", {}, "Duplicates"), el("p", {}, duplicates.sentence), el("div", { class: "strip" }, ...repeated)]
      : []),
  );
}
