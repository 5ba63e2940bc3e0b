// The report's first part: what hardsight check found, the suspects, what was run, the headline numbers, the figures, how to reproduce it.

import { again, el, harmless, name } from "./words.js";

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
  const found = headline.found.map((sentence) => el("p", {}, harmless(sentence)));
  body.replaceChildren(
    ...found,
    el("p", {}, harmless(headline.sentence)),
    el("div", { class: "facts" }, ...facts),
    el("div", { class: "figures" }, ...figures),
    how,
    ...headline.notes.map((note) => el("p", { class: "note" }, harmless(note))),
  );
  if (headline.suspects)
    page
      .until(suspects(headline.suspects, page).then((first) => (found.length ? found.at(-1).after(first) : body.prepend(first))))
      .catch((error) => page.say(error.message, true));
}

const whole = (share) => (Number.isFinite(share) ? `${Math.round(100 * share)} %` : "–");

// The suspects with their pictures, most likely wrong first; a click opens one.
async function suspects({ expected, sentence, rows, duplicates }, page) {
  const { columns, about, source } = page;
  await columns.need(["label", "suggested_label", "suggested_probability", "verdict"]);
  const tile = (row, id, caption, below) => {
    const mark = columns.word("mark", row);
    const button = el(
      "button",
      { type: "button", class: "tile", title: id, onclick: () => page.open(row) },
      about.pictures ? page.picture(source.thumb(row)) : el("span", { class: "nopicture" }, id),
      el("span", { class: "caption" }, ...caption),
      el("span", { class: "caption quiet" }, below),
      mark === null ? null : el("span", { class: "badge", "data-mark": mark }, mark),
    );
    button.setAttribute("aria-label", `${id}, ${below}` + (mark === null ? "" : `, marked ${mark}`));
    return button;
  };
  const known = async (places) => (await source.rows(places)).map(({ id }) => harmless(id).slice(0, 100));
  const ids = await known(rows),
    copies = await known(duplicates.rows);
  const tiles = rows.map((row, at) => {
    const given = columns.word("label", row),
      suggested = page.review.suggested(row),
      verdict = columns.word("verdict", row) ?? "";
    const caption = [
      given === null ? el("span", { class: "quiet" }, "no label") : name(given, 18),
      suggested === null ? null : el("span", { class: "wrong" }, "→ ", name(about.classes[suggested], 18)),
      suggested === null ? null : el("span", { class: "value" }, whole(columns.get("suggested_probability")?.[row])),
    ];
    return tile(row, ids[at], caption.filter(Boolean), verdict);
  });
  const repeated = duplicates.rows.map((row, at) => {
    const twin = duplicates.of[at];
    return tile(row, copies[at], [name(copies[at], 18)], twin === null ? "" : `repeats ${harmless(twin).slice(0, 100)}`);
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
