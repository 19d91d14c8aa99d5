// Rows of the timeline: open groups, and what the filter matches.
const closed = new Set(data.groups.filter(group => group.rows.length > 60).map(group => group.name));
let query = "";

function visibleRows() {
  const visible = [];
  for (const group of data.groups) {
    const rows = group.rows.filter(row => !query || `${group.name} ${row.name} ${row.about}`.toLowerCase().includes(query));
    if (!rows.length) continue;
    const open = Boolean(query) || !closed.has(group.name);
    visible.push({ group, open, count: rows.length, rows });
    if (open) for (const row of rows) visible.push({ row, group });
  }
  return visible;
}

// Number of rows of a closed group in a state, over time.
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

function describeSpan(row, span) {
  const [state, begins, ends, why] = span;
  return {
    title: `${row.name}: ${data.states[state]}`,
    lines: [`${formatTime(begins, 1)} to ${formatTime(ends, 1)}, ${formatDuration(ends - begins)}`, why, row.about],
  };
}

function describeIncident(incident) {
  return {
    title: `${incident.number}. ${incident.what}`,
    lines: [
      formatTime(incident.at, 1) + (incident.ends ? ` to ${formatTime(incident.ends, 1)}` : ""),
      ...incident.acts.map(([at, what]) => `${formatTime(at, 1)} ${what}`),
      incident.recovered ? "✓ recovered" : "✗ not recovered",
    ],
  };
}
