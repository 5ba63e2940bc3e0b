// What the colours mean, as buttons where they are groups: a click selects one.

import { css, groupColour, rampColour } from "./colours.js";
import { isChange, rampEnds } from "./scatter.js";
import { el, measured, name, withSign } from "./words.js";

const SHOWN = 12;

export function drawLegend(parent, columns, colour, choose) {
  const meta = columns.meta(colour);
  if (!meta) {
    parent.replaceChildren();
    return;
  }
  if (meta.names) {
    const entries = meta.names.slice(0, SHOWN).map((word, code) => {
      const dot = el("span", { class: "dot" });
      dot.style.background = groupColour(code, colour);
      return el(
        "button",
        { type: "button", class: "entry", title: "Select only these", onclick: () => choose(word) },
        dot,
        name(word, 24),
      );
    });
    if (meta.names.length > SHOWN) entries.push(el("span", { class: "quiet" }, `and ${meta.names.length - SHOWN} more`));
    parent.replaceChildren(...entries);
    return;
  }
  const [low, high] = rampEnds(columns, colour);
  const bar = el("canvas", { class: "ramp", width: 160, height: 1, "aria-hidden": "true" });
  const context = bar.getContext("2d");
  for (let x = 0; x < 160; x++) {
    context.fillStyle = rampColour(x / 159, isChange(colour));
    context.fillRect(x, 0, 1, 1);
  }
  const quiet = (words) => el("span", { class: "quiet" }, words);
  parent.replaceChildren(
    el("span", {}, withSign(colour, meta)),
    quiet(measured(low, meta.unit)),
    bar,
    quiet(measured(high, meta.unit)),
  );
  if (!columns.get(colour).some(Number.isNaN)) return;
  const dot = el("span", { class: "dot" });
  dot.style.background = css("--no-value");
  parent.append(dot, quiet("no value"));
}
