// What was run: the command, its arguments and versions, as recorded in the run.

import { again, count, el, harmless, number } from "./words.js";

export function drawRun(parent, about) {
  const rows = [
    ["samples", count(about.n)],
    ["classes", count(about.classes.length)],
    ["path", about.place],
  ];
  const { command, words, arguments: given, inputs, versions, counts, seconds } = about.start ?? {};
  if (words ?? command) rows.push(["command", words ?? command]);
  if (seconds) rows.push(["took", number(seconds) + " s"]);
  const flat = (what, entries) =>
    Object.entries(entries ?? {}).forEach(([key, value]) =>
      rows.push([`${what}: ${key}`, typeof value === "object" ? JSON.stringify(value) : String(value)]),
    );
  flat("argument", given);
  flat("input", inputs);
  flat("count", counts);
  flat("version", versions);
  parent.replaceChildren(
    ...about.notes.map((note) => el("p", { class: "note" }, harmless(note))),
    ...(about.again.length ? [again(about.again)] : []),
    el(
      "table",
      { class: "values" },
      el(
        "tbody",
        {},
        ...rows.map(([key, value]) =>
          el("tr", {}, el("th", { scope: "row" }, harmless(key)), el("td", {}, el("bdi", {}, harmless(value).slice(0, 2000)))),
        ),
      ),
    ),
  );
}
