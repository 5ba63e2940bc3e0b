// What the colours mean, as buttons where they are groups: a click selects one.

import { css, groupColour, rampColour } from "./colours.js";
import { isChange, rampEnds } from "./scatter.js";
import { el, measured, name, spoken, withSign } from "./words.js";

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
    if (meta.names.length > SHOWN) entries.push(quiet(`and ${meta.names.length - SHOWN} more`));
    const without = columns.get(colour)?.some((code) => code >= meta.names.length) ? noValue(`no ${spoken(colour)}`) : [];
    parent.replaceChildren(...entries, ...without);
    return;
  }
  const [low, high] = rampEnds(columns, colour);
  const bar = el("canvas", { class: "ramp", width: 160, height: 1, "aria-hidden": "true" });
  const context = bar.getContext("2d");
  for (let x = 0; x < 160; x++) {
    context.fillStyle = rampColour(x / 159, isChange(colour));
    context.fillRect(x, 0, 1, 1);
  }
  parent.replaceChildren(
    el("span", {}, withSign(colour, meta)),
    quiet(measured(low, meta.unit)),
    bar,
    quiet(measured(high, meta.unit)),
  );
  if (columns.get(colour).some(Number.isNaN)) parent.append(...noValue("no value"));
}

const quiet = (words) => el("span", { class: "quiet" }, words);

// The grey of samples that have no value or belong to no group.
function noValue(words) {
  const dot = el("span", { class: "dot" });
  dot.style.background = css("--no-value");
  return [dot, quiet(words)];
}
