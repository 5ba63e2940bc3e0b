// What was run: the command, its arguments and versions, as the run itself wrote them.

import { count, el, harmless, number } from "./words.js";

export function drawRun(place, about) {
  const rows = [["samples", count(about.n)], ["classes", count(about.classes.length)], ["place", about.place]];
  const { command, words, arguments: given, inputs, versions, counts, seconds } = about.start ?? {};
  if (words ?? command) rows.push(["command", words ?? command]);
  if (seconds) rows.push(["took", number(seconds) + " s"]);
  const flat = (what, value) => Object.entries(value ?? {}).forEach(([key, one]) => rows.push([`${what}: ${key}`, typeof one === "object" ? JSON.stringify(one) : String(one)]));
  flat("argument", given);
  flat("input", inputs);
  flat("count", counts);
  flat("version", versions);
  place.replaceChildren(...about.notes.map((note) => el("p", { class: "note" }, harmless(note))),
    el("table", { class: "values" }, el("tbody", {}, ...rows.map(([key, value]) => el("tr", {}, el("th", { scope: "row" }, harmless(key)), el("td", {}, el("bdi", {}, harmless(value).slice(0, 2000))))))));
}
