// Groups of the selection in the report, which has no server: the twin of groups_of in selection.py.

// [{name, rows}]: the largest groups of a column of words, or five of equal size for numbers
// (human frequencies, most of them close to 1, are cut at 0.2, 0.4, 0.6 and 0.8). `mask` has one byte per row.
export function groupsOf(meta, values, mask, most) {
  const rows = [];
  for (let row = 0; row < mask.length; row++) if (mask[row]) rows.push(row);
  if (!meta) return [{ name: "selection", rows }];
  return meta.names ? ofWords(meta.names, values, rows, most) : ofNumbers(values, rows, meta.name === "human");
}

function ofWords(names, values, rows, most) {
  const groups = names.map((name) => ({ name, rows: [] }));
  for (const row of rows) groups[values[row]]?.rows.push(row);
  const largest = new Set([...groups].sort((a, b) => b.rows.length - a.rows.length).slice(0, most));
  return groups.filter((group) => largest.has(group) && group.rows.length);
}

function ofNumbers(values, rows, atFifths) {
  const known = rows.filter((row) => Number.isFinite(values[row])),
    sorted = Float64Array.from(known, (row) => values[row]).sort();
  if (!known.length) return [];
  const fifths = [0.2, 0.4, 0.6, 0.8],
    cuts = atFifths ? fifths : [...new Set(fifths.map((share) => quantile(sorted, share)))];
  const ends = [sorted[0], ...cuts, sorted[sorted.length - 1]];
  const groups = cuts.concat([Infinity]).map((_, at) => ({ name: `${three(ends[at])} to ${three(ends[at + 1])}`, rows: [] }));
  for (const row of known) groups[cuts.filter((cut) => cut <= values[row]).length].rows.push(row);
  return groups.filter((group) => group.rows.length);
}

function quantile(sorted, share) {
  const at = share * (sorted.length - 1),
    low = Math.floor(at);
  return sorted[low] + ((sorted[low + 1] ?? sorted[low]) - sorted[low]) * (at - low);
}

const three = (value) => String(Number(value.toPrecision(3)));
