"""The live page: one file, no network but the service itself. It shows what is public, and counts."""

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>pgc aggregator</title>
<style>
 :root { color-scheme: light dark; }
 body { font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 1.5rem auto; padding: 0 1rem; }
 h1 { font-size: 1.3rem; } h2 { font-size: 1.05rem; margin-top: 1.6rem; }
 dl { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); gap: .6rem; margin: 0; }
 dl div { border: 1px solid #8886; border-radius: .5rem; padding: .5rem .7rem; }
 dt { font-size: .8rem; opacity: .75; } dd { margin: 0; font-size: 1.25rem; font-variant-numeric: tabular-nums; }
 table { border-collapse: collapse; width: 100%; } td { border-top: 1px solid #8884; padding: .25rem 0; }
 td:last-child { text-align: right; font-variant-numeric: tabular-nums; }
 footer { margin-top: 2rem; font-size: .85rem; opacity: .75; }
</style></head><body>
<h1>pgc aggregator</h1>
<main id="models">loading …</main>
<h2>Requests since it started</h2>
<table><tbody id="counts"></tbody></table>
<footer>Every report is ε-locally private before it arrives. Nothing on this page is about any one device.</footer>
<script>
const seen = {};
const tile = (name, value) => `<div><dt>${name}</dt><dd>${value}</dd></div>`;
async function get(path) {
  const answer = await fetch(path);
  if (!answer.ok) throw new Error(answer.status);
  return answer.json();
}
async function look() {
  try {
    const { models } = await get("/v1/models");
    const cards = await Promise.all(models.map(name => get(`/v1/models/${name}`)));
    const now = Date.now();
    document.getElementById("models").innerHTML = cards.map(card => {
      const past = (seen[card.model] ||= []);
      past.push([now, card.received]);
      while (past.length > 31) past.shift();
      const minutes = (now - past[0][0]) / 60000;
      const rate = minutes > 0 ? Math.round((card.received - past[0][1]) / minutes) : "–";
      return `<h2>${card.model}</h2><dl>` + tile("version", card.version) + tile("reports", card.received.toLocaleString()) +
        tile("reports a minute", rate) + tile("in the buffer", card.buffered) +
        tile("mechanism", card.mechanism) + tile("ε of a report", card.epsilon_per_report) + "</dl>";
    }).join("") || "no model yet";
    const { counts, waiting } = await get("/v1/status");
    const row = (name, count) => `<tr><td>${name}</td><td>${count.toLocaleString()}</td></tr>`;
    document.getElementById("counts").innerHTML =
      counts.map(c => row(`${c.what}: ${c.result}`, c.count)).join("") + row("waiting to be written", waiting);
  } catch (error) { document.getElementById("models").textContent = "the service does not answer (" + error.message + ")"; }
}
look(); setInterval(look, 2000);
</script></body></html>
"""
