// Text on the page: names made harmless, readable numbers, and elements without markup from data.

// Characters that change the text around them: controls, bidirectional overrides, invisible ones.
const ODD = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}]/gu;

export function harmless(text) {
  return String(text).replace(ODD, (c) => "\\u{" + c.codePointAt(0).toString(16) + "}");
}

// A name in its own element, so that its text direction ends there; long ones are shortened, with the whole as title.
export function name(text, longest = 60) {
  const whole = harmless(text);
  const element = el("bdi", {}, whole.length > longest ? whole.slice(0, longest - 1) + "…" : whole);
  if (whole.length > longest) element.title = whole.slice(0, 2000);
  return element;
}

export function short(text, longest = 60) {
  const whole = harmless(text);
  return whole.length > longest ? whole.slice(0, longest - 1) + "…" : whole;
}

// An element with properties and children; children are elements or text, never markup.
export function el(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(properties)) {
    if (key === "class") element.className = value;
    else if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key.includes("-") || key === "role" || key === "for") element.setAttribute(key, value);
    else element[key] = value;
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

export function number(value, digits = 4) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e6 || size < 1e-4) return value.toExponential(digits - 2);
  return String(Number(value.toPrecision(digits)));
}

// The same for a column of numbers: trailing zeros stay, so that they line up.
export const aligned = (value, digits = 4) => {
  const size = Math.abs(value);
  return size >= 1e-4 && size < 10 ** (digits - 1) ? value.toPrecision(digits) : number(value, digits);
};

// A number with its unit, and the title of an axis or a column with it in words.
export const measured = (value, unit, digits = 4, show = number) =>
  show(value, digits) + (unit?.startsWith("degrees") && Number.isFinite(value) ? "°" : "");

export const titled = (column, unit) => spoken(column) + (unit ? ` (${unit})` : "");

export const count = (value) => value.toLocaleString("en-US");

export const percent = (part) => (Number.isFinite(part) ? (100 * part).toFixed(1) + " %" : "–");

// A count with the singular or the plural.
export const counted = (value, one, several = one + "s") => `${count(value)} ${value === 1 ? one : several}`;

// Commands that show the same page, one per line.
export const again = (commands, ...more) =>
  el(
    "details",
    { open: true, class: "again" },
    el("summary", {}, "How to do it again"),
    el("pre", { tabIndex: 0 }, commands.map(harmless).join("\n")),
    ...more,
  );

const SPOKEN = {
  avh: "AVH",
  avh_relative: "AVH × classes",
  avh_scaled: "AVH, scaled",
  own_angle: "angle to given class",
  nearest_angle: "angle to nearest other",
  el2n: "EL2N",
  aum: "AUM",
  label: "given class",
  predicted: "predicted class",
  correct: "right or wrong",
  human: "human frequency",
  suggested_label: "suggested class",
  is_label_issue: "label issue",
  is_duplicate: "duplicate",
  pca_1: "PCA 1",
  pca_2: "PCA 2",
  tsne_1: "t-SNE 1",
  tsne_2: "t-SNE 2",
  umap_1: "UMAP 1",
  umap_2: "UMAP 2",
};

// A column's name for people.
export function spoken(column) {
  const parts = /^(.*?)( \(2\)|(?: rank)? change)?$/s.exec(column);
  return (SPOKEN[parts[1]] ?? short(parts[1].replaceAll("_", " "), 40)) + (parts[2] ?? "");
}
