// Which rows the time line has at the moment: groups that are open, and what the filter lets through.
const closed = new Set(data.groups.filter(group => group.rows.length > 60).map(group => group.name));
let wanted = "";

function rowsShown() {
  const found = [];
  for (const group of data.groups) {
    const rows = group.rows.filter(row => !wanted || `${group.name} ${row.name} ${row.about}`.toLowerCase().includes(wanted));
    if (!rows.length) continue;
    const open = Boolean(wanted) || !closed.has(group.name);
    found.push({ group, open, count: rows.length, rows });
    if (open) for (const row of rows) found.push({ row, group });
  }
  return found;
}

// What a closed group shows: how many of its rows are in a state, along the day.
function density(rows, state, from, to, places) {
  const counts = new Float32Array(places + 1), scale = places / (to - from);
  for (const row of rows) for (const [name, begins, ends] of row.spans) {
    if (name !== state || ends < from || begins > to) continue;
    counts[Math.max(0, Math.floor((begins - from) * scale))] += 1;
    counts[Math.min(places, Math.ceil((ends - from) * scale))] -= 1;
  }
  let sum = 0;
  return counts.map(change => sum += change);
}

function details(row, span) {
  const [state, begins, ends, why] = span;
  return {
    title: `${row.name}: ${data.states[state]}`,
    lines: [`${clockTime(begins, 1)} to ${clockTime(ends, 1)}, ${lasting(ends - begins)}`, why, row.about],
  };
}

function happened(incident) {
  return {
    title: `${incident.number}. ${incident.what}`,
    lines: [
      clockTime(incident.at, 1) + (incident.ends ? ` to ${clockTime(incident.ends, 1)}` : ""),
      ...incident.acts.map(([at, what]) => `${clockTime(at, 1)} ${what}`),
      incident.mended ? "✓ mended" : "✗ not mended",
    ],
  };
}
