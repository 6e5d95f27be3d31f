"""The live page: one file, no network but the service itself. It shows what is public, counts, and what noisy booleans say."""

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>pgc aggregator</title><link rel="icon" href="data:,">
<style>
 :root { color-scheme: light dark; --line: #1f77b4; --other: #d6730b; }
 body { font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 1.5rem auto; padding: 0 1rem; }
 h1 { font-size: 1.3rem; } h2 { font-size: 1.05rem; margin-top: 1.6rem; }
 dl { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); gap: .6rem; margin: 0; }
 dl div { border: 1px solid #8886; border-radius: .5rem; padding: .5rem .7rem; }
 dt { font-size: .8rem; opacity: .75; } dd { margin: 0; font-size: 1.25rem; font-variant-numeric: tabular-nums; }
 figure { margin: 1rem 0 0; } figcaption { font-size: .85rem; opacity: .8; }
 svg { width: 100%; height: auto; display: block; } svg text { font-size: 11px; fill: currentColor; opacity: .75; }
 @media (max-width: 34rem) { svg text { font-size: 19px; } }
 table { border-collapse: collapse; width: 100%; } td { border-top: 1px solid #8884; padding: .25rem 0; }
 td:last-child { text-align: right; font-variant-numeric: tabular-nums; }
 footer { margin-top: 2rem; font-size: .85rem; opacity: .75; }
</style></head><body>
<h1>pgc aggregator</h1>
<p id="state" role="status"></p>
<main id="models">loading …</main>
<h2>Requests since this process started</h2>
<table><tbody id="counts"></tbody></table>
<footer>Every report is ε-locally private before it arrives. The score is that of the public policy in a simulated world; nothing
on this page is about any one device.</footer>
<script>
const seen = {};
const tile = (name, value) => `<div><dt>${name}</dt><dd>${value}</dd></div>`;
const row = (name, count) => `<tr><td>${name}</td><td>${count}</td></tr>`;
async function get(path) {
  const answer = await fetch(path);
  if (!answer.ok) throw new Error(answer.status);
  return answer.json();
}
function chart({ points, threshold }) {
  if (points.length < 2 || threshold === null) return "";
  const [W, H, left, bottom] = [640, 200, 44, 22];
  const most = Math.max(...points.map(p => p.reports), 1);
  const scores = points.map(p => p.score).concat([threshold]);
  const [low, high] = [Math.min(...scores, 0), Math.max(...scores, 0)];
  const x = n => left + (W - left - 10) * n / most;
  const y = v => H - bottom - (H - bottom - 12) * (v - low) / (high - low || 1);
  const line = (list, colour, more = "") => list.length < 2 ? "" :
    `<polyline fill="none" stroke="${colour}" stroke-width="2" ${more} points="${list.map(p => p.join(",")).join(" ")}"/>`;
  const success = points.filter(p => p.success !== null);
  const share = v => H - bottom - (H - bottom - 12) * v;
  return `<figure><svg viewBox="0 0 ${W} ${H}" role="img" aria-label="score against reports">
    <line x1="${left}" x2="${W - 10}" y1="${y(threshold)}" y2="${y(threshold)}" stroke="currentColor" stroke-dasharray="4 4"
     opacity=".5"/><text x="${left - 6}" y="${y(threshold) + 4}" text-anchor="end">Θ ${threshold}</text>
    <text x="${left - 6}" y="${y(low) + 4}" text-anchor="end">${low.toFixed(0)}</text>
    <text x="${left}" y="${H - 4}">0 reports</text>
    <text x="${W - 10}" y="${H - 4}" text-anchor="end">${most.toLocaleString()}</text>
    ${line(points.map(p => [x(p.reports), y(p.score)]), "var(--line)")}
    ${line(success.map(p => [x(p.reports), share(p.success)]), "var(--other)", 'stroke-dasharray="6 3"')}
    </svg><figcaption>score of the averaged policy in the usual world, now ${points.at(-1).score.toFixed(1)}${success.length ?
    `; dashed, the share of devices that reach Θ, by the noisy booleans: ${(100 * success.at(-1).success).toFixed(0)} % ± ${
    (100 * success.at(-1).margin).toFixed(0)} %` : ""}</figcaption></figure>`;
}
async function look() {
  try {
    const { models } = await get("/v1/models");
    const cards = await Promise.all(models.map(name => get(`/v1/models/${name}`)));
    const progress = await Promise.all(models.map(name => get(`/v1/models/${name}/progress`)));
    const now = Date.now();
    document.getElementById("models").innerHTML = cards.map((card, i) => {
      const past = (seen[card.model] ||= []);
      past.push([now, card.received]);
      while (past.length > 31) past.shift();
      const minutes = (now - past[0][0]) / 60000;
      const rate = minutes > 0 ? Math.round((card.received - past[0][1]) / minutes).toLocaleString() : "–";
      return `<h2>${card.model}</h2><dl>` + tile("version", card.version) + tile("reports", card.received.toLocaleString()) +
        tile("reports a minute", rate) + tile("in the buffer", card.buffered) +
        tile("mechanism", card.mechanism) + tile("ε of a report", card.epsilon_per_report) + "</dl>" + chart(progress[i]);
    }).join("") || "no model yet";
    const { counts, waiting, updates } = await get("/v1/status");
    document.getElementById("counts").innerHTML =
      counts.map(c => row(`${c.what}: ${c.result}`, c.count.toLocaleString())).join("") + row("waiting to be written", waiting) +
      row("this process updates θ", updates ? "yes" : "no, another does");
    document.getElementById("state").textContent = "";
  } catch (error) { document.getElementById("state").textContent = "the service does not answer (" + error.message + ")"; }
}
look(); setInterval(look, 2000);
</script></body></html>
"""
