// What is being looked at, kept in the address after #, so that a view can be bookmarked and sent.
//
// filters are lists: ["range", column, low, high], ["in", column, [names]], ["box", x, y, x0, x1, y0, y1],
// ["lasso", x, y, [x0, y0, x1, y1, ...]], ["id", text]

const PLAIN = ["x", "y", "colour", "sort", "order", "tab", "page", "measure", "by", "score"];

export function readView(hash) {
  const found = new URLSearchParams(hash.replace(/^#/, ""));
  const view = { filters: [], zoom: null };
  for (const key of PLAIN) if (found.has(key)) view[key] = found.get(key);
  for (const text of found.getAll("f")) {
    const filter = parsed(text);
    if (isFilter(filter)) view.filters.push(filter);
  }
  const zoom = parsed(found.get("zoom") ?? "null");
  if (Array.isArray(zoom) && zoom.length === 4 && zoom.every(Number.isFinite)) view.zoom = zoom;
  view.page = Math.max(0, Math.floor(Number(view.page) || 0));
  return view;
}

export function writeView(view) {
  const params = new URLSearchParams();
  for (const key of PLAIN) if (view[key] !== undefined && view[key] !== null && view[key] !== 0) params.set(key, view[key]);
  for (const filter of view.filters) params.append("f", JSON.stringify(filter, rounded));
  if (view.zoom) params.set("zoom", JSON.stringify(view.zoom, rounded));
  return "#" + params.toString();
}

function rounded(_key, value) {
  return typeof value === "number" && !Number.isInteger(value) ? Number(value.toPrecision(6)) : value;
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

function isFilter(one) {
  if (!Array.isArray(one)) return false;
  const words = (...at) => at.every((i) => typeof one[i] === "string");
  const finite = (values) => values.every((value) => Number.isFinite(value));
  switch (one[0]) {
    case "range": return words(1) && one.length === 4 && [one[2], one[3]].every((end) => end === null || Number.isFinite(end));
    case "in": return words(1) && Array.isArray(one[2]) && one[2].every((name) => typeof name === "string");
    case "box": return words(1, 2) && one.length === 7 && finite(one.slice(3));
    case "lasso": return words(1, 2) && Array.isArray(one[3]) && one[3].length >= 6 && one[3].length % 2 === 0 && finite(one[3]);
    case "id": return words(1) && one.length === 2;
    default: return false;
  }
}
