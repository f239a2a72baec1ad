// Only in a served page: ask for new rounds and draw them in place.
const PAUSE = 2000;

async function follow() {
  const sign = document.getElementById("live");
  let tag = null, fails = 0;
  for (;;) {
    try {
      const answer = await fetch("data.json", { headers: tag ? { "If-None-Match": tag } : {}, cache: "no-store" });
      if (answer.status === 200) {
        tag = answer.headers.get("ETag");
        data = await answer.json();
        describe();
        redraw();
      }
      fails = 0;
      const open = data.runs.filter((run) => !run.complete).length;
      sign.textContent = open ? `· live, ${open} ${open === 1 ? "run" : "runs"} going on` : "· all runs are complete";
    } catch {
      if (++fails > 2) sign.textContent = "· the server has stopped; these are its last numbers";
    }
    await new Promise((done) => setTimeout(done, PAUSE));
  }
}

follow();
